// A full-screen terminal for `tandem top`, through ncurses.
#pragma once
#include <vector>

#include "monitor/top_view.hpp"

namespace tandem::cli {

// Thread safety: one object at a time, one thread.
class TopScreen {
 public:
  TopScreen();  // throws CommandError without a usable terminal
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  // Room for show(): all lines but the last, which lists the keys.
  monitor::TopSize size() const;
  void show(const std::vector<monitor::TopLine>& lines);
  // Waits for a key; false: the user quits.
  bool wait(int milliseconds);
};

}  // namespace tandem::cli
