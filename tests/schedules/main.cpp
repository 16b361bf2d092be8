// Histories of the store in this process, one for each seed, of threads that take their turns as the seed says.
//
//   schedules FIRST COUNT JOBS OUT [OPTION VALUE]...   options: of tests/linearizability/recorder; --out and --seed are
//   ours schedules --trace SEED OUT [OPTION VALUE]...       one seed, and a line on stdout for each turn
//   schedules --self-test
//
// Each seed has a process of its own, so that it does the same alone as after others. The first one that ends otherwise
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

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../linearizability/recorder/options.hpp"
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
  std::uint64_t operations, points, switches, evictions, pages_moved, index_growths, searched_batches, image_hits,
      devices_lost;
};

// The processor's tick counter is not the simulation's: an instruction that reads it faults, and gets this.
void read_ticks(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (self == nullptr || code[0] != 0x0f || code[1] != 0x31) {  // rdtsc
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  const auto ticks = static_cast<std::uint64_t>(now_ns());
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

std::string with_seed(std::uint64_t seed, const std::string& key) { return "s" + std::to_string(seed) + "." + key; }

// Appends the histories of one seed to the common one.
void write(const Options& o, std::uint64_t seed, std::vector<std::vector<Operation>> histories) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const memory = open_memstream(&text, &bytes);
  const auto base = static_cast<std::int64_t>(seed % 1'000'000 * seed_ns);
  for (std::vector<Operation>& history : histories) {
    for (Operation& event : history) {
      event.key = with_seed(seed, event.key.empty() ? "*" : event.key);
      event.process += seed * 1000;
      event.called_ns += base;
      event.returned_ns += base;
      record::write_event(memory, event);
    }
  }
  std::fclose(memory);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  const int file = open(o.out.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  // In one call: other seeds append, too.
  if (file < 0 || ::write(file, text, bytes) != static_cast<ssize_t>(bytes) || close(file) != 0)
    throw std::runtime_error("cannot write " + o.out);
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

// One seed. In a process of its own.
void run(Options o, std::uint64_t seed, std::FILE* trace, Totals& totals) {
  alarm(seconds_max);
  o.mix.seed = o.target.seed = seed;
  stay_on_one_processor(seed);
  hide_ticks();
  begin(seed, points_max, trace);
  std::unique_ptr<Target> target = record::open_engine(o.target);
  const TargetStats before = target->stats();
  std::vector<std::vector<Operation>> histories = record::record(o, *target);
  const TargetStats after = target->stats();
  target.reset();
  const Report report = end();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  std::uint64_t operations = 0;
  for (const auto& history : histories) operations += history.size();
  write(o, seed, std::move(histories));
  const auto add = [](std::uint64_t& total, std::uint64_t more) { __atomic_fetch_add(&total, more, __ATOMIC_RELAXED); };
  add(totals.operations, operations);
  add(totals.points, report.points);
  add(totals.switches, report.switches);
  add(totals.evictions, after.evictions - before.evictions);
  add(totals.pages_moved, after.pages_moved - before.pages_moved);
  add(totals.index_growths, after.index_bytes > before.index_bytes ? 1 : 0);
  add(totals.searched_batches, after.searched_batches - before.searched_batches);
  add(totals.image_hits, after.image_hits - before.image_hits);
  add(totals.devices_lost, after.devices_lost);
  if (trace != nullptr) std::fprintf(trace, "trace %016llx\n", static_cast<unsigned long long>(report.trace));
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return number == SIGALRM ? "did not end in time" : std::string("was ended by signal ") + strsignal(number);
  }
  const int code = WEXITSTATUS(status);
  return code == deadlock_exit ? "all threads wait for ever" : code == endless_exit ? "has no end" : "failed";
}

pid_t start(const Options& o, std::uint64_t seed, std::FILE* trace, Totals& totals) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    run(o, seed, trace, totals);
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
                 std::to_string(o.mix.clients) + ",\"may_vanish\":" + (o.may_vanish ? "true" : "false") + "}");
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
                                                         {"image_hits", totals.image_hits},
                                                         {"devices_lost", totals.devices_lost}};
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
