// A full-screen terminal for `tandem top`, through ncurses.
#pragma once
#include <vector>

#include "monitor/top_view.hpp"

namespace tandem::cli {

// Thread safety: one object at a time, one thread.
class TopScreen {
 public:
  TopScreen();  // throws CommandError when there is no terminal that can be used
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  // What show() has room for: all lines but the last, which tells the keys.
  monitor::TopSize size() const;
  void show(const std::vector<monitor::TopLine>& lines);
  // Waits so long; false: the user wants to leave.
  bool wait(int milliseconds);
};

}  // namespace tandem::cli
