// Signals, received by one thread and turned into calls, so that no code runs inside a signal handler.
#pragma once
#include <functional>
#include <thread>

namespace tandem::cli {

// Blocks INT, TERM, HUP, USR1 and USR2 for this thread and those it starts, and ignores PIPE. Called before any other
// thread exists; Signals receives the blocked signals.
void hold_signals();

// Calls `on_signal(number)` on its own thread for each INT, TERM, HUP, USR1 and USR2. After the first INT or TERM a
// further INT ends the process at once.
class Signals {
 public:
  // REQUIRES: hold_signals() was called. Throws std::system_error.
  explicit Signals(std::function<void(int)> on_signal);
  ~Signals();  // no call comes after it
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  void run() const;

  std::function<void(int)> on_signal_;
  int signals_ = -1, end_ = -1;
  std::thread thread_;
};

}  // namespace tandem::cli
