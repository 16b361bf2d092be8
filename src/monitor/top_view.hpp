// What `tandem top` shows, as lines of text: no terminal here.
#pragma once
#include <string>
#include <vector>

#include "monitor/stats_text.hpp"

namespace tandem::monitor {

// A server's statistics at one moment; groups that it does not know are empty.
struct TopSample {
  double time_s = 0;  // of a steady clock
  Stats general, latency, hot_keys;
};

struct TopLine {
  std::string text;
  bool heading = false;
};

// Rates are those between the two samples. Whatever a server sends, only printable ASCII comes out.
std::vector<TopLine> top_lines(const std::string& server, const TopSample& before, const TopSample& now);

}  // namespace tandem::monitor
