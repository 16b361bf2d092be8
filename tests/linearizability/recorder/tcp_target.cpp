// A server over TCP: the text protocol with its meta commands, in bursts of requests that are sent together.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "scan_read.hpp"
#include "target.hpp"
#include "values.hpp"

namespace tandem::record {
namespace {

using namespace std::string_view_literals;
using namespace std::chrono_literals;

class Socket {
 public:
  explicit Socket(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    const int on = 1;
    if (fd_ < 0 || connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      fail("no connection to the server");
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) fail("cannot send");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void receive(std::string& to) const {
    char buffer[1 << 16];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got < 0) fail("no answer in 20 s");
    if (got == 0) throw std::runtime_error("the server closed the connection");
    to.append(buffer, static_cast<std::size_t>(got));
  }

 private:
  [[noreturn]] static void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }
  int fd_;
};

// A line of requests: one operation, a get of several keys, or, with none, a command that searches for nothing.
struct Line {
  std::size_t first = 0, count = 0;
  bool meta = false;
};

std::uint64_t number_after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  std::uint64_t number = 0;
  if (at != std::string_view::npos) std::from_chars(line.data() + at + mark.size(), line.data() + line.size(), number);
  return number;
}

class TcpClient final : public Client {
 public:
  TcpClient(std::uint16_t port, const TargetOptions& options, std::uint64_t seed)
      : port_(port), options_(options), random_(seed), socket_(std::make_unique<Socket>(port)) {}

  void run(std::span<Operation> burst) override {
    const std::string request = requests(burst);
    const std::int64_t called = now_ns();
    for (Operation& o : burst) {
      o.called_ns = called;
      o.path = path_of(burst.size());
    }
    socket_->send_all(request);
    received_.clear();
    at_ = 0;
    std::int64_t now = 0;
    for (const Line& line : lines_) {
      std::size_t end = 0;
      while ((end = take_line(burst.subspan(line.first, line.count), line.meta)) == 0) {
        socket_->receive(received_);
        now = now_ns();
      }
      at_ = end;
      for (Operation& o : burst.subspan(line.first, line.count)) o.returned_ns = now;
    }
    if (at_ != received_.size()) throw std::runtime_error("bytes that answer nothing: " + received_.substr(at_, 100));
    for (Operation& o : burst) {
      if (o.outcome == Outcome::unknown) ask_again(o);
    }
  }

  // The end of the connection comes right behind the requests: the server sees some of them, or all, or none.
  bool abandon(std::span<Operation> burst) override {
    const std::string request = requests(burst);
    const std::int64_t called = now_ns();
    for (Operation& o : burst) {
      o.called_ns = called;
      o.outcome = Outcome::unknown;
    }
    socket_->send_all(std::string_view(request).substr(0, 1 + random_() % request.size()));
    socket_.reset();
    socket_ = std::make_unique<Socket>(port_);
    return true;
  }

 private:
  // What was answered was about another key: now the server compares.
  void ask_again(Operation& o) {
    received_.clear();
    at_ = 0;
    o.burst |= asked_again;
    o.called_ns = now_ns();
    socket_->send_all("mg " + o.key + " v c f t\r\n");
    while ((at_ = take({&o, 1}, true)) == 0) socket_->receive(received_);
    o.returned_ns = now_ns();
  }

  // As the server is told to choose. It may have seen a burst beside another, or in pieces.
  Path path_of(std::size_t burst) const {
    if (options_.device_queries_min == 0) return Path::unknown;
    return burst >= options_.device_queries_min ? Path::device : Path::host;
  }

  std::string requests(std::span<const Operation> burst) {
    lines_.clear();
    std::string request;
    for (std::size_t i = 0; i < burst.size();) {
      // What a device has found is let go of for it, so the host searches for what follows.
      if (options_.control_percent != 0 && random_() % 100 < options_.control_percent) {
        request += "verbosity 0\r\n";
        lines_.push_back({.first = i, .count = 0});
      }
      Line line{.first = i, .count = 1, .meta = random_() % 2 == 0};
      line.meta |= burst[i].kind == Kind::exchange || burst[i].kind == Kind::take;
      if (burst[i].kind == Kind::get && !line.meta) {
        const bool all = random_() % 4 != 0;
        request += random_() % 4 != 0 ? "gets" : "get";
        for (line.count = 0; i < burst.size() && burst[i].kind == Kind::get; ++i, ++line.count) {
          if (line.count != 0 && !all) break;
          // Of a key that is asked for twice and found once, it is unknown when.
          const auto same = [&](const Operation& o) { return o.key == burst[i].key; };
          if (std::any_of(burst.begin() + static_cast<std::ptrdiff_t>(line.first),
                          burst.begin() + static_cast<std::ptrdiff_t>(i), same))
            break;
          request += " " + burst[i].key;
        }
        request += "\r\n";
      } else {
        request += burst[i].kind == Kind::scan ? scan_request(burst[i])
                   : line.meta                 ? meta_request(burst[i])
                                               : text_request(burst[i]);
        ++i;
      }
      lines_.push_back(line);
    }
    return request;
  }

  // A group's range in one of the ways to say it.
  std::string scan_request(const Operation& o) {
    const ScanAsked& s = o.scan;
    return "mr " + (s.whole && random_() % 2 == 0 ? o.key + " P" : s.begin + " E" + s.end) + " v c f" +
           (s.reverse ? " r" : "") + " L" + std::to_string(s.limit) + "\r\n";
  }

  static std::string text_request(const Operation& o) {
    const std::string delta = " " + std::to_string(o.delta) + "\r\n";
    const std::string ttl = std::to_string(o.ttl_s);
    const std::string name(kind_names[static_cast<std::size_t>(o.kind)]);
    switch (o.kind) {
      case Kind::flush:
        return "flush_all\r\n";
      case Kind::remove:
        return "delete " + o.key + "\r\n";
      case Kind::increment:
      case Kind::decrement:
        return name + " " + o.key + delta;
      case Kind::touch:
        return "touch " + o.key + " " + ttl + "\r\n";
      default:
        return name + " " + o.key + " " + std::to_string(o.flags) + " " + ttl + " " + std::to_string(o.bytes.size()) +
               (o.kind == Kind::cas ? " " + std::to_string(o.expected) : "") + "\r\n" + o.bytes + "\r\n";
    }
  }

  std::string meta_request(const Operation& o) {
    std::string mode;
    switch (o.kind) {
      case Kind::get:
        return "mg " + o.key + (random_() % 2 == 0 ? " v c f t\r\n" : " v c f t K\r\n");
      case Kind::remove:
        return "md " + o.key + "\r\n";
      case Kind::take:
        return "md " + o.key + " G\r\n";
      case Kind::increment:
      case Kind::decrement:
        return "ma " + o.key + " v c D" + std::to_string(o.delta) + (o.kind == Kind::increment ? " MI\r\n" : " MD\r\n");
      case Kind::touch:
      case Kind::flush:
      case Kind::scan:
        return text_request(o);
      case Kind::set:
        mode = "MS";
        break;
      case Kind::exchange:
        mode = "G";
        break;
      case Kind::add:
        mode = "ME";
        break;
      case Kind::replace:
        mode = "MR";
        break;
      case Kind::append:
        mode = "MA";
        break;
      case Kind::prepend:
        mode = "MP";
        break;
      case Kind::cas:
        mode = "MS C" + std::to_string(o.expected);
        break;
    }
    const bool adds = o.kind == Kind::append || o.kind == Kind::prepend;  // then the item keeps its time
    return "ms " + o.key + " " + std::to_string(o.bytes.size()) + " c " +
           (adds ? "" : "T" + std::to_string(o.ttl_s) + " F" + std::to_string(o.flags) + " ") + mode + "\r\n" +
           o.bytes + "\r\n";
  }

  std::size_t take_line(std::span<Operation> line, bool meta) {
    return line.size() == 1 && line[0].kind == Kind::scan ? take_scan(line[0]) : take(line, meta);
  }

  // VA <bytes> k<key> c<cas> f<flags>, the value; EN n<count>[ m k<last>]
  std::size_t take_scan(Operation& o) const {
    ScanRead read(o);
    for (std::size_t at = at_, items = 0;; ++items) {
      const std::size_t end = received_.find("\r\n", at);
      if (end == std::string::npos) return 0;
      const std::string_view text = std::string_view(received_).substr(at, end - at);
      at = end + 2;
      if (text.starts_with("EN n")) {
        if (number_after(text, " n") != items)
          throw std::runtime_error("another number of items: " + std::string(text));
        const std::size_t last = text.find(" m k");
        read.end(last == text.npos, last == text.npos ? ""sv : text.substr(last + 4));
        return at;
      }
      const std::size_t key = text.find(" k"), key_end = text.find(' ', key + 2);
      const std::uint64_t bytes = number_after(text, "VA ");
      if (!text.starts_with("VA ") || key_end == text.npos)
        throw std::runtime_error("an answer that fits no request: " + std::string(text));
      if (received_.size() < at + bytes + 2) return 0;
      if (std::string_view(received_).substr(at + bytes, 2) != "\r\n")
        throw std::runtime_error("a value without its end: " + std::string(text));
      const std::string_view rest = text.substr(key_end);
      read.item(text.substr(key + 2, key_end - key - 2), std::string_view(received_).substr(at, bytes),
                number_after(rest, " c"), number_after(rest, " f"));
      at += bytes + 2;
    }
  }

  // Takes the answer to a line of requests: where it ends, or 0 if it is not all there yet.
  std::size_t take(std::span<Operation> line, bool meta) {
    std::size_t at = at_, key = 0;
    for (Operation& o : line) o.outcome = Outcome::miss;
    for (;;) {
      const std::size_t end = received_.find("\r\n", at);
      if (end == std::string::npos) return 0;
      const std::string_view text = std::string_view(received_).substr(at, end - at);
      at = end + 2;
      const bool value = text.starts_with("VALUE "), meta_value = text.starts_with("VA ");
      if (line.empty()) {
        if (text != "OK") throw std::runtime_error("an answer that fits no request: " + std::string(text));
        return at;
      }
      if (!value && !meta_value) {
        if (text != "END") take_word(line[0], text, meta);
        return at;
      }
      // VALUE <key> <flags> <bytes> [<cas>], VA <bytes> c<cas>[ f<flags> t<seconds>][ k<key>][ G<flags>]
      const std::size_t name_end = text.find(' ', 6);
      const std::string_view rest = value ? text.substr(text.find(' ', name_end + 1) + 1) : text.substr(3);
      std::uint64_t bytes = 0;
      std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
      if (received_.size() < at + bytes + 2) return 0;
      if (value) {
        while (key < line.size() && line[key].key != text.substr(6, name_end - 6)) ++key;
        if (key == line.size()) throw std::runtime_error("a value that nobody asked for: " + std::string(text));
      }
      Operation& o = line[key++];
      o.read = value_of(std::string_view(received_).substr(at, bytes));
      o.cas = number_after(rest, value ? " "sv : " c"sv);
      o.outcome = o.kind == Kind::get || o.kind == Kind::exchange ? Outcome::hit
                  : o.kind == Kind::take                          ? Outcome::removed
                                                                  : Outcome::number;
      if (o.kind == Kind::exchange || o.kind == Kind::take)
        o.read_flags = static_cast<std::int64_t>(number_after(rest, " G"));
      if (o.kind == Kind::get) {
        o.read_flags =
            static_cast<std::int64_t>(value ? number_after(text.substr(name_end), " ") : number_after(rest, " f"));
        if (meta_value)
          o.left_s = rest.find(" t-1") != rest.npos ? Operation::never_expires
                                                    : static_cast<std::int64_t>(number_after(rest, " t"));
      }
      if (std::string_view(received_).substr(at + bytes, 2) != "\r\n")
        throw std::runtime_error("a value without its end: " + std::string(text));
      at += bytes + 2;
      if (!meta_value) continue;
      // K: the value may be another key's, and then says nothing of this one.
      if (const std::size_t named = text.find(" k"); named != text.npos && text.substr(named + 2) != o.key)
        o.outcome = Outcome::unknown;
      return at;
    }
  }

  static void take_word(Operation& o, std::string_view text, bool meta) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (word == "STORED" || word == "HD") {
      o.outcome = o.kind == Kind::remove ? Outcome::removed : Outcome::stored;
      o.cas = number_after(text, " c");
    } else if (word == "NOT_STORED" || word == "NS") {
      o.outcome = Outcome::not_stored;
    } else if (word == "EXISTS" || word == "EX") {
      o.outcome = Outcome::exists;
    } else if (word == "NOT_FOUND" || word == "NF" || word == "EN") {
      o.outcome = Outcome::miss;
    } else if (word == "DELETED") {
      o.outcome = Outcome::removed;
    } else if (word == "TOUCHED") {
      o.outcome = Outcome::touched;
    } else if (word == "OK" && o.kind == Kind::flush) {
      o.outcome = Outcome::flushed;
    } else if (text.find_first_not_of("0123456789") == std::string_view::npos) {
      o.outcome = Outcome::number;
      o.read = text;
    } else if (text.starts_with("CLIENT_ERROR cannot increment or decrement")) {
      o.outcome = Outcome::not_a_number;
    } else if (text.starts_with("SERVER_ERROR out of memory")) {
      // A meta set that is refused removes the item in every mode; a set's client knows it of its command.
      const bool stores = o.kind == Kind::add || o.kind == Kind::replace || o.kind == Kind::append ||
                          o.kind == Kind::prepend || o.kind == Kind::cas;
      o.outcome = meta && stores ? Outcome::no_memory_gone : Outcome::no_memory;
    } else {
      throw std::runtime_error("an answer that fits no request: " + std::string(text));
    }
  }

  const std::uint16_t port_;
  const TargetOptions& options_;
  std::mt19937_64 random_;
  std::unique_ptr<Socket> socket_;
  std::vector<Line> lines_;
  std::string received_;
  std::size_t at_ = 0;
};

class Server final : public Target {
 public:
  Server(std::uint16_t port, const TargetOptions& options) : port_(port), options_(options), control_(port) {
    for (int i = 0; statistics("stats gpu").find("gpu:serves no") != std::string::npos; ++i) {
      if (i == 2000) throw std::runtime_error("the server's device does not serve");
      std::this_thread::sleep_for(5ms);
    }
  }
  std::unique_ptr<Client> client(std::uint64_t seed) override {
    return std::make_unique<TcpClient>(port_, options_, seed);
  }

  TargetStats stats() override {
    const std::string s = statistics("stats"), gpu = statistics("stats gpu");
    return {.evictions = number_after(s, "STAT evictions "),
            .pages_moved = number_after(s, "STAT slabs_moved "),
            .index_bytes = number_after(s, "STAT hash_bytes "),
            .searched_batches = number_after(gpu, "STAT gpu:batches "),
            .image_hits = number_after(gpu, "STAT gpu:values_hits "),
            .hot_queries = number_after(gpu, "STAT gpu:hot_queries "),
            .turned_hot = number_after(gpu, "STAT gpu:hot_promoted "),
            .turned_cold = number_after(gpu, "STAT gpu:hot_cleaned "),
            .handed_over = number_after(gpu, "STAT gpu:queries "),
            .stolen = number_after(gpu, "STAT gpu:queries_stolen ")};
  }

  void fault(std::uint64_t /*random*/) override {}
  void move_page(std::uint32_t to_class) override {
    std::string answer;
    control_.send_all("slabs reassign -1 " + std::to_string(to_class) + "\r\n");
    while (!answer.ends_with("\r\n")) control_.receive(answer);
  }

 private:
  std::string statistics(const std::string& command) {
    std::string answer;
    control_.send_all(command + "\r\n");
    while (!answer.ends_with("END\r\n")) control_.receive(answer);
    return answer;
  }
  const std::uint16_t port_;
  const TargetOptions options_;
  Socket control_;
};

}  // namespace

std::unique_ptr<Target> connect_to(std::uint16_t port, const TargetOptions& options) {
  return std::make_unique<Server>(port, options);
}

}  // namespace tandem::record
