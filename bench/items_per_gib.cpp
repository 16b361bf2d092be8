// How many items a GiB holds.
//
//   items_per_gib                                       the heap filled until the budget is used up, with an index cell
//   (8 bytes at load 0.9) charged for
//                                                       each item
//   items_per_gib --memcached /usr/bin/memcached        beside it a memcached at -m 1024, filled over loopback until it
//   evicts: its curr_items and what is
//                                                       resident then
//   items_per_gib --tandem build/bin/tandem             the same with Tandem's server (`tandem memcached -m 1024`)
//
// What -m covers differs: Tandem's holds items and index, memcached's holds items only, its hash table comes on top
// (RSS shows it).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "heap/heap.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

struct Shape {
  std::uint32_t key_bytes, value_bytes;
};
constexpr Shape shapes[] = {{8, 8}, {16, 64}, {32, 512}};

// Decimal digits, so that any server takes it: key number i with so many bytes.
std::string key_of(std::uint64_t i, std::uint32_t key_bytes) {
  std::string key(key_bytes, '0');
  for (std::size_t at = key_bytes; i != 0; i /= 36) key[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[i % 36];
  return key;
}

// Items that fit one GiB of heap pages (their overhead included) and index cells together.
std::uint64_t items_in_heap(Shape shape) {
  MemoryBudget budget(gib);
  EpochDomain epochs(1);
  Heap heap({}, budget, epochs);
  Heap::Cache cache(heap);
  const Heap::Cache::Lock lock(cache);
  const std::uint64_t item_bytes = Item::total_bytes(0, shape.key_bytes, shape.value_bytes);
  const SizeClass c = heap.size_class(item_bytes);
  std::uint64_t items = 0;
  std::uint64_t cells_charged = 0;  // in steps of 64 Ki items
  for (;; ++items) {
    if (items == cells_charged) {
      constexpr std::uint64_t step = 65'536;
      if (!budget.take(static_cast<std::uint64_t>(step * cell_bytes_at_load_90))) return items;
      cells_charged += step;
    }
    const Location l = heap.allocate(cache, c, item_bytes);
    if (l == no_location) return items;
    heap.format(l, key_of(items, shape.key_bytes), 0, shape.value_bytes, 0, 0, false);
  }
}

// A server process on a port of its own.
class Server {
 public:
  Server(const std::vector<std::string>& command, std::uint16_t port) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execvp(arguments[0], arguments.data());
      std::perror(arguments[0]);
      _exit(127);
    }
    for (int tries = 0; tries < 500; ++tries) {
      socket_ = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
      close(socket_);
      if (waitpid(process_, nullptr, WNOHANG) != 0) break;
      usleep(10'000);
    }
    throw std::runtime_error("no answer from " + command[0]);
  }
  ~Server() {
    close(socket_);
    kill(process_, SIGTERM);
    waitpid(process_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("the server closed the connection");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // One number of `stats`; waits for all that was sent before.
  std::uint64_t stat(std::string_view name) const {
    send_all("stats\r\n");
    std::string reply;
    while (!reply.ends_with("END\r\n")) {
      char bytes[4096];
      const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
      if (n <= 0) throw std::runtime_error("the server closed the connection");
      reply.append(bytes, static_cast<std::size_t>(n));
    }
    const std::size_t at = reply.find("STAT " + std::string(name) + " ");
    if (at == std::string::npos) throw std::runtime_error("no statistic " + std::string(name));
    return std::strtoull(reply.c_str() + at + 6 + name.size(), nullptr, 10);
  }
  std::uint64_t resident_bytes() const {
    const std::string path = "/proc/" + std::to_string(process_) + "/statm";
    std::FILE* file = std::fopen(path.c_str(), "r");
    unsigned long total = 0;
    unsigned long resident = 0;
    if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) throw std::runtime_error(path);
    std::fclose(file);
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

struct Filled {
  std::uint64_t items, resident_bytes;
};

// New keys until the server has evicted some.
Filled fill(std::vector<std::string> command, Shape shape, std::uint16_t port) {
  for (const std::string& word :
       {std::string("-m"), std::string("1024"), std::string("-p"), std::to_string(port), std::string("-U"),
        std::string("0"), std::string("-l"), std::string("127.0.0.1"), std::string("-t"), std::string("1")}) {
    command.push_back(word);
  }
  if (geteuid() == 0) command.insert(command.end(), {"-u", "root"});
  const Server server(command, port);
  const std::string value(shape.value_bytes, 'v');
  const std::string tail = " 0 0 " + std::to_string(shape.value_bytes) + " noreply\r\n" + value + "\r\n";
  std::uint64_t most_items = 0;
  constexpr std::uint64_t step = 65'536;
  for (std::uint64_t i = 0;; i += step) {
    std::string requests;
    for (std::uint64_t k = i; k < i + step; ++k) {
      requests += "set ";
      requests += key_of(k, shape.key_bytes);
      requests += tail;
    }
    server.send_all(requests);
    most_items = std::max(most_items, server.stat("curr_items"));
    if (server.stat("evictions") != 0) return {most_items, server.resident_bytes()};
    if (i > 20 * gib / 64) throw std::runtime_error("the server never evicts");
  }
}

int run(int argc, char** argv) {
  std::vector<std::string> memcached;
  std::vector<std::string> tandem;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--memcached") memcached = {argv[i + 1]};
    if (option == "--tandem") tandem = {argv[i + 1], "memcached"};
  }
  if (argc % 2 == 0 || (argc > 1 && memcached.empty() && tandem.empty())) {
    std::fprintf(stderr, "usage: %s [--memcached PROGRAM] [--tandem PROGRAM]\n", argv[0]);
    return 2;
  }
  std::printf("items per GiB; bookkeeping: bytes per item beside key and value\n");
  std::printf("%-8s %12s %12s", "key/val", "heap+index", "bookkeeping");
  if (!tandem.empty()) std::printf(" %14s %10s", "tandem -m 1024", "RSS MiB");
  if (!memcached.empty()) std::printf(" %14s %10s %10s", "memcached", "RSS MiB", "heap/mc");
  std::printf("\n");
  std::uint16_t port = static_cast<std::uint16_t>(20'000 + getpid() % 10'000);
  for (const Shape& shape : shapes) {
    const std::uint64_t items = items_in_heap(shape);
    const double per_item = static_cast<double>(gib) / static_cast<double>(items);
    std::printf("%-8s %12lu %12.1f",
                (std::to_string(shape.key_bytes) + "/" + std::to_string(shape.value_bytes)).c_str(), items,
                per_item - shape.key_bytes - shape.value_bytes);
    std::fflush(stdout);
    if (!tandem.empty()) {
      const Filled f = fill(tandem, shape, ++port);
      std::printf(" %14lu %10lu", f.items, f.resident_bytes >> 20);
      std::fflush(stdout);
    }
    if (!memcached.empty()) {
      const Filled f = fill(memcached, shape, ++port);
      std::printf(" %14lu %10lu %9.2fx", f.items, f.resident_bytes >> 20,
                  static_cast<double>(items) / static_cast<double>(f.items));
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    return tandem::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "items_per_gib: %s\n", e.what());
    return 1;
  }
}
