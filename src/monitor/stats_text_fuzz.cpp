// External input of the monitor: a server's replies to `tandem top`, query strings and Host headers.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "monitor/http_server.hpp"
#include "monitor/status_json.hpp"
#include "monitor/top_view.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::monitor;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TopSample before, now;
  now.time_s = 1;
  const StatsEnd end = parse_stats(text, now.general);
  // Cut anywhere, a reply gives the same result or `more`.
  Stats part;
  const StatsEnd early = parse_stats(text.substr(0, size / 2), part);
  if (early != StatsEnd::more && early != end) std::abort();
  now.own = now.histograms = now.hot_keys = now.general;
  const TopSize terminal{.rows = static_cast<int>(1 + size % 50), .columns = static_cast<int>(1 + size % 200)};
  const std::vector<TopLine> lines = top_lines("server", before, now, terminal);
  if (lines.size() > static_cast<std::size_t>(terminal.rows)) std::abort();
  for (const TopLine& line : lines) {
    if (line.text.size() > static_cast<std::size_t>(terminal.columns)) std::abort();
    for (const char c : line.text) {
      if (c < ' ' || c > '~') std::abort();
    }
  }
  static_cast<void>(since_of(text));
  static_cast<void>(is_host_of_loopback(text));
  return 0;
}
