// What `tandem top` shows, as lines of text: no terminal here.
#pragma once
#include <string>
#include <vector>

#include "monitor/stats_text.hpp"

namespace tandem::monitor {

// A server's statistics at one moment; groups that it does not know are empty.
struct TopSample {
  double time_s = 0;                         // of a steady clock
  Stats general, own, histograms, hot_keys;  // `stats`, `stats tandem`, `histograms` and `hotkeys`
};

// A terminal's, in characters.
struct TopSize {
  int rows = 24, columns = 80;
};

struct TopLine {
  std::string text;
  bool heading = false;
};

// All rates and times are those between the two samples. Whatever a server sends, only printable ASCII comes out, at
// most size.rows lines of size.columns characters. At 24 rows and 80 columns all is there, but commands beyond the six
// that were asked for most.
std::vector<TopLine> top_lines(const std::string& server, const TopSample& before, const TopSample& now,
                               const TopSize& size);

}  // namespace tandem::monitor
