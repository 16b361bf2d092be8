#include "heap/bus_error.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

#include "heap/memory_file.hpp"

namespace tandem {
namespace {

struct sigaction handled_before{};
std::atomic<int> exit_code{0};  // 0: none
std::array<std::atomic<const MemoryFile*>, 64> guarded{};

void say(const char* text) noexcept {
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, text, std::strlen(text));
}

// Calls the handler that was installed before ours.
void pass_on(int number, siginfo_t* info, void* context) noexcept {
  if ((handled_before.sa_flags & SA_SIGINFO) != 0) return handled_before.sa_sigaction(number, info, context);
  if (handled_before.sa_handler != SIG_DFL && handled_before.sa_handler != SIG_IGN)
    return handled_before.sa_handler(number);
  // A signal that another process sent would not recur by itself.
  if (info->si_code <= 0 && handled_before.sa_handler == SIG_IGN) return;
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  sigaction(number, &by_default, nullptr);
  if (info->si_code <= 0) raise(number);
}

void on_bus_error(int number, siginfo_t* info, void* context) noexcept {
  if (info->si_code > 0) {  // from the kernel, so it has an address
    for (const auto& slot : guarded) {
      const MemoryFile* const file = slot.load(std::memory_order_acquire);
      if (file == nullptr || !file->has(info->si_addr)) continue;
      file->mark_unreadable();
      say("tandem: memory file ");
      say(file->path().c_str());
      say(": a page cannot be read back; the process ends\n");
      if (const int code = exit_code.load(std::memory_order_relaxed); code != 0) _exit(code);
      break;
    }
  }
  pass_on(number, info, context);
}

bool take_bus_errors() noexcept {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGBUS, nullptr, &handled_before);  // first: a bus error may come at once
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

void guard_against_bus_errors(const MemoryFile& file) noexcept {
  static const bool taken = take_bus_errors();
  if (!taken) return;
  for (auto& slot : guarded) {
    const MemoryFile* expected = nullptr;
    if (slot.compare_exchange_strong(expected, &file, std::memory_order_acq_rel)) return;
  }
}

void unguard(const MemoryFile& file) noexcept {
  for (auto& slot : guarded) {
    const MemoryFile* mine = &file;
    if (slot.compare_exchange_strong(mine, nullptr, std::memory_order_acq_rel)) return;
  }
}

void end_by_bus_errors_with(int code) noexcept { exit_code.store(code, std::memory_order_relaxed); }

}  // namespace tandem
