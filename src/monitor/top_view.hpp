// The text of `tandem top` as lines, independent of a terminal.
#pragma once
#include <string>
#include <vector>

#include "monitor/stats_text.hpp"

namespace tandem::monitor {

// A server's statistics at one moment; groups that it does not support are empty.
struct TopSample {
  double time_s = 0;                         // of a steady clock
  Stats general, own, histograms, hot_keys;  // `stats`, `stats tandem`, `histograms` and `hotkeys`
};

// Size of a terminal, in characters.
struct TopSize {
  int rows = 24, columns = 80;
};

struct TopLine {
  std::string text;
  bool heading = false;
};

// All rates and times are those between the two samples. Whatever a server sends, the output is only printable ASCII,
// at most size.rows lines of size.columns characters. 24 rows and 80 columns show everything except commands beyond the
// six most requested.
std::vector<TopLine> top_lines(const std::string& server, const TopSample& before, const TopSample& now,
                               const TopSize& size);

}  // namespace tandem::monitor
