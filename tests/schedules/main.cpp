// Histories of the store in this process, one for each seed, of threads that take their turns as the seed says.
//
//   schedules FIRST COUNT JOBS OUT [OPTION VALUE]...   options: of tests/linearizability/recorder; --out and --seed are
//                                                      ours
//   schedules --trace SEED OUT [OPTION VALUE]...       one seed, and a line on stdout for each turn
//   schedules --self-test
//
// Of each seed that ends, or dies as it is to, there is a line on stdout by which two runs of it can be compared. Each
// seed has a process of its own, so that it does the same alone as after other seeds. The first one that ends otherwise
// than it should ends all: exit code 1, and how to see it again.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../linearizability/recorder/options.hpp"
#include "base/ticks.hpp"
#include "selftest.hpp"
#include "simulation.hpp"

namespace tandem::schedules {
namespace {

using record::Operation;
using record::Options;
using record::Target;
using record::TargetStats;

constexpr std::uint64_t points_max = 50'000'000;
constexpr unsigned seconds_max = 120;
constexpr std::uint64_t seed_ns = 1'000'000'000'000;  // seeds follow each other in the common history

// What all seeds did; in memory that their processes share.
struct Totals {
  std::uint64_t operations, points, switches, evictions, pages_moved, index_growths, searched_batches, devices_lost,
      deaths, asked_again, refused, found_again, stolen, host_operations, device_operations, keys_answered_by_both;
};

// The processor's tick counter is not the simulation's: an instruction that reads it faults, and gets this. Outside the
// simulation it stands still.
void read_ticks(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[0] != 0x0f || code[1] != 0x31) {  // rdtsc
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  const auto ticks = self == nullptr ? 0 : static_cast<std::uint64_t>(now_ns());
  registers[REG_RAX] = static_cast<greg_t>(ticks & 0xffffffff);
  registers[REG_RDX] = static_cast<greg_t>(ticks >> 32);
  registers[REG_RIP] += 2;
}

void hide_ticks() {
  struct sigaction action{};
  action.sa_sigaction = read_ticks;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

// The simulation's ticks are nanoseconds. They cannot be measured there, where time stands still between two points;
// here they are found not to move, for which the store takes one nanosecond.
void measure_ticks() {
  hide_ticks();
  if (ns_per_tick() != 1) throw std::logic_error("ticks are not nanoseconds");
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
}

// Appends what happened with one seed to the common history.
void write(const std::string& path, std::uint64_t seed, std::vector<Operation> operations, std::int64_t later_ns = 0) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const memory = open_memstream(&text, &bytes);
  const auto base = static_cast<std::int64_t>(seed % 1'000'000 * seed_ns) + later_ns;
  for (Operation& o : operations) {
    o.key = "s" + std::to_string(seed) + "." + (o.key.empty() ? "*" : o.key);
    o.process += seed * 1000;
    o.called_ns += base;
    o.returned_ns += base;
    record::write_event(memory, o);
  }
  std::fclose(memory);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  // In one call: other seeds append, too.
  if (file < 0 || ::write(file, text, bytes) != static_cast<ssize_t>(bytes) || close(file) != 0)
    throw std::runtime_error("cannot write " + path);
}

std::vector<Operation> answered(record::Histories& histories) {
  std::vector<Operation> all;
  for (record::ClientHistory& client : histories) std::ranges::move(client.answered, std::back_inserter(all));
  return all;
}

// Threads of which one runs at a time are fastest on one processor.
void stay_on_one_processor(std::uint64_t seed) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  auto nth = seed % static_cast<std::uint64_t>(CPU_COUNT(&allowed));
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &allowed) || nth-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

std::string keys_path(const Options& o) { return o.target.memory_file + ".keys"; }

// For the process that comes after.
void write_keys(const Options& o, const std::vector<Operation>& operations) {
  std::set<std::string> keys;
  for (const Operation& each : operations) {
    if (!each.key.empty()) keys.insert(each.key);
  }
  std::FILE* const file = std::fopen(keys_path(o).c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + keys_path(o));
  for (const std::string& key : keys) std::fprintf(file, "%s\n", key.c_str());
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + keys_path(o));
}

std::vector<std::string> read_keys(const Options& o) {
  std::vector<std::string> keys;
  std::ifstream file(keys_path(o));
  for (std::string key; std::getline(file, key);) keys.push_back(key);
  return keys;
}

void add(std::uint64_t& total, std::uint64_t more) { __atomic_fetch_add(&total, more, __ATOMIC_RELAXED); }

// What clients can say of their answers, also of those before a death.
void add_answers(Totals& totals, const record::Histories& histories) {
  const record::Paths paths = record::paths_of(histories);
  add(totals.host_operations, paths.host);
  add(totals.device_operations, paths.device);
  add(totals.keys_answered_by_both, paths.both);
  add(totals.asked_again, record::count_asked_again(histories));
  add(totals.refused, record::count(histories, record::Outcome::no_memory));
}

// Equal for equal runs, whether there is a trace or not.
void print(std::uint64_t seed, const Report& report) {
  std::printf("seed %llu: %llu points, %llu switches, turns %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(report.points), static_cast<unsigned long long>(report.switches),
              static_cast<unsigned long long>(report.trace));
  std::fflush(stdout);
}

// Ends the process in the middle of its work, as `kill -9` does, once it has written what clients know: answers, and
// questions with an unknown end.
class Dying {
 public:
  Dying(const Options& options, std::uint64_t seed, record::Histories& histories, Totals& totals)
      : options_(options), seed_(seed), histories_(histories), totals_(totals) {
    now = this;
    die_within(options.crash_within, [] { now->die(); });
  }
  Dying(const Dying&) = delete;
  Dying& operator=(const Dying&) = delete;
  ~Dying() { die_never(); }

 private:
  [[noreturn]] void die() {
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    std::vector<Operation> operations;
    for (const record::ClientHistory& client : histories_) {
      std::ranges::copy(client.answered, std::back_inserter(operations));
      for (Operation asked : client.asked) {
        asked.outcome = record::Outcome::unknown;
        asked.returned_ns = asked.called_ns;
        asked.read.clear();
        asked.cas = 0;
        operations.push_back(std::move(asked));
      }
    }
    add(totals_.operations, operations.size());
    add(totals_.deaths, 1);
    add_answers(totals_, histories_);
    write_keys(options_, operations);
    write(options_.out, seed_, std::move(operations));
    print(seed_, so_far());
    _exit(0);
  }

  inline static Dying* now = nullptr;
  const Options& options_;
  const std::uint64_t seed_;
  record::Histories& histories_;
  Totals& totals_;
};

// One seed. In a process of its own.
void run(const Options& o, std::uint64_t seed, std::FILE* trace, Totals& totals) {
  begin(seed, points_max, trace);
  record::Histories histories;
  std::optional<Dying> dying;
  if (o.crash_within != 0 && !o.crash_serving) dying.emplace(o, seed, histories, totals);
  std::unique_ptr<Target> target = record::open_engine(o.target);
  if (o.crash_serving) dying.emplace(o, seed, histories, totals);
  const TargetStats before = target->stats();
  record::record(o, *target, histories);
  const TargetStats after = target->stats();
  target.reset();
  dying.reset();
  const Report report = end();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  add_answers(totals, histories);
  std::vector<Operation> operations = answered(histories);
  add(totals.operations, operations.size());
  add(totals.points, report.points);
  add(totals.switches, report.switches);
  add(totals.evictions, after.evictions - before.evictions);
  add(totals.pages_moved, after.pages_moved - before.pages_moved);
  add(totals.index_growths, after.index_bytes > before.index_bytes ? 1 : 0);
  add(totals.searched_batches, after.searched_batches - before.searched_batches);
  add(totals.devices_lost, after.devices_lost);
  add(totals.stolen, after.stolen - before.stolen);
  print(seed, report);
  if (o.crash_within != 0) write_keys(o, operations);
  write(o.out, seed, std::move(operations));
}

// The process that comes after the one that died, on the same memory file: every key is looked at, twice.
void look_after_death(const Options& o, std::uint64_t seed, Totals& totals) {
  const std::vector<std::string> keys = read_keys(o);
  keep_date(seed_ns / 2);  // items expire by the date that the process before had, as the history has it
  const std::unique_ptr<Target> target = record::open_engine(o.target);
  std::vector<Operation> operations;
  for (const std::uint64_t process : {900u, 901u}) record::look_at(*target->client(seed), keys, process, operations);
  const std::int64_t first = operations.empty() ? 0 : operations.front().called_ns;
  for (Operation& each : operations) {
    each.called_ns -= first;
    each.returned_ns -= first;
  }
  add(totals.operations, operations.size());
  add(totals.found_again,
      static_cast<std::uint64_t>(std::ranges::count(operations, record::Outcome::hit, &Operation::outcome)));
  write(o.out, seed, std::move(operations), seed_ns / 2);
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return number == SIGALRM ? "did not end in time" : std::string("was ended by signal ") + strsignal(number);
  }
  const int code = WEXITSTATUS(status);
  return code == deadlock_exit ? "all threads wait for ever" : code == endless_exit ? "has no end" : "failed";
}

// The seed's memory file lives for as long as this process.
void run_twice(Options& o, std::uint64_t seed, std::FILE* trace, Totals& totals) {
  // As a rule in memory: on a disk most of the time goes into allocating it.
  const bool has_shm = access("/dev/shm", W_OK) == 0;
  o.target.memory_file =
      has_shm ? "/dev/shm/tandem-schedule-" + std::to_string(getpid()) : o.out + "." + std::to_string(seed);
  struct Files {
    const Options& o;
    Files(const Options& options) : o(options) { remove(); }
    ~Files() { remove(); }
    void remove() const {
      unlink(o.target.memory_file.c_str());
      unlink(keys_path(o).c_str());
    }
  } const files(o);
  std::fflush(nullptr);
  const pid_t first = fork();
  if (first == 0) {
    try {
      hide_ticks();
      run(o, seed, trace, totals);
      std::fflush(nullptr);
      _exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), e.what());
      _exit(1);
    }
  }
  int status = 0;
  if (first < 0 || waitpid(first, &status, 0) != first) throw std::runtime_error("cannot fork");
  if (status != 0) throw std::runtime_error("before its death it " + ending(status));
  look_after_death(o, seed, totals);
}

// A seed's process; if it is to die, two, one after the other.
pid_t start(const Options& common, std::uint64_t seed, std::FILE* trace, Totals& totals) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    alarm(seconds_max);
    stay_on_one_processor(seed);
    Options o = common;
    o.mix.seed = o.target.seed = seed;
    if (o.crash_within == 0) {
      hide_ticks();
      run(o, seed, trace, totals);
    } else {
      run_twice(o, seed, trace, totals);
    }
    std::fflush(nullptr);
    _exit(0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), e.what());
    _exit(1);
  }
}

void write_line(const Options& o, const char* mode, const std::string& line) {
  std::FILE* const file = std::fopen(o.out.c_str(), mode);
  if (file == nullptr) throw std::runtime_error("cannot write " + o.out);
  std::fprintf(file, "%s\n", line.c_str());
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + o.out);
}

int run_all(const Options& o, std::uint64_t first, std::uint64_t count, std::uint64_t jobs, std::FILE* trace) {
  void* const shared = mmap(nullptr, sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  Totals& totals = *new (shared) Totals{};
  write_line(o, "w",
             "{\"name\":\"" + o.name + "\",\"seed\":" + std::to_string(first) + ",\"clients\":" +
                 std::to_string(o.mix.clients) + ",\"may_vanish\":" + (o.may_vanish ? "true" : "false") +
                 ",\"may_refuse\":" + (o.target.evict ? "false" : "true") + "}");
  std::map<pid_t, std::uint64_t> running;
  bool good = true;
  for (std::uint64_t seed = first; (good && seed != first + count) || !running.empty();) {
    if (good && seed != first + count && running.size() < jobs) {
      const pid_t child = start(o, seed, trace, totals);
      if (child < 0) throw std::runtime_error("cannot fork");
      running.emplace(child, seed++);
      continue;
    }
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    const auto ended = running.find(child);
    if (ended == running.end()) continue;
    if (status != 0 && std::exchange(good, false)) {
      std::fprintf(stderr, "SCHEDULE seed %llu %s\n", static_cast<unsigned long long>(ended->second),
                   ending(status).c_str());
    }
    running.erase(ended);
  }
  std::string line = "{";
  const std::pair<const char*, std::uint64_t> facts[] = {{"seeds", count},
                                                         {"operations", totals.operations},
                                                         {"points", totals.points},
                                                         {"switches", totals.switches},
                                                         {"evictions", totals.evictions},
                                                         {"pages_moved", totals.pages_moved},
                                                         {"index_growths", totals.index_growths},
                                                         {"searched_batches", totals.searched_batches},
                                                         {"devices_lost", totals.devices_lost},
                                                         {"deaths", totals.deaths},
                                                         {"asked_again", totals.asked_again},
                                                         {"refused", totals.refused},
                                                         {"found_again", totals.found_again},
                                                         {"stolen", totals.stolen},
                                                         {"host_operations", totals.host_operations},
                                                         {"device_operations", totals.device_operations},
                                                         {"keys_answered_by_both", totals.keys_answered_by_both}};
  for (const auto& [name, value] : facts)
    line += (line.size() == 1 ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
  write_line(o, "a", line + "}");
  return good ? 0 : 1;
}

std::uint64_t number(const char* text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != 0) throw std::invalid_argument(std::string("not a number: ") + text);
  return value;
}

// Addresses that are the same in every run.
void fix_addresses(char** words) {
  const int persona = personality(0xffffffff);
  if (persona == -1 || (persona & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE) == -1) return;
  execv("/proc/self/exe", words);
}

int main_of(int count, char** words) {
  fix_addresses(words);
  if (count == 2 && std::string_view(words[1]) == "--self-test") return self_test() ? 0 : 1;
  const bool traces = count > 1 && std::string_view(words[1]) == "--trace";
  const int own = traces ? 4 : 5;
  if (count < own)
    throw std::invalid_argument("schedules FIRST COUNT JOBS OUT or schedules --trace SEED OUT, then options");
  std::vector<char*> rest = {const_cast<char*>("--out"), words[own - 1]};
  rest.insert(rest.end(), words + own, words + count);
  const Options o = record::parse(rest);
  measure_ticks();
  // Not on the heap: a trace changes no address.
  static char buffer[1 << 16];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  if (traces) return run_all(o, number(words[2]), 1, 1, stdout);
  return run_all(o, number(words[1]), number(words[2]), number(words[3]), nullptr);
}

}  // namespace
}  // namespace tandem::schedules

int main(int count, char** words) {
  try {
    return tandem::schedules::main_of(count, words);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "schedules: %s\n", e.what());
    return 2;
  }
}
