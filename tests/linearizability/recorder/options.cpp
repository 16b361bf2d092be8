#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>

namespace tandem::record {

Options parse(std::span<char* const> words) {
  Options o;
  const auto number = [](auto& field) {
    return [&field](const std::string& text) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
      if (error != std::errc() || end != text.data() + text.size())
        throw std::invalid_argument("not a number: " + text);
    };
  };
  const auto text = [](std::string& field) { return [&field](const std::string& value) { field = value; }; };
  std::uint32_t may_vanish = 0, may_refuse = 0, crash_serving = 0;
  const std::map<std::string, std::function<void(const std::string&)>> all = {
      {"--port", number(o.port)},
      {"--out", text(o.out)},
      {"--name", text(o.name)},
      {"--plan", text(o.target.plan)},
      {"--index-kind", text(o.target.index_kind)},
      {"--ordered", number(o.target.ordered)},
      {"--leaf-cells", number(o.target.leaf_cells)},
      {"--batch-plan", text(o.target.batch_plan)},
      {"--api", text(o.target.api)},
      {"--memory-mib", number(o.target.memory_bytes)},
      {"--item-expected", number(o.target.item_bytes_expected)},
      {"--pause-us", number(o.target.pause_us)},
      {"--device-latency-us", number(o.target.device_latency_us)},
      {"--devices", number(o.target.devices)},
      {"--gpu", text(o.target.gpu)},
      {"--host-percent", number(o.target.host_percent)},
      {"--device-queries-min", number(o.target.device_queries_min)},
      {"--control-percent", number(o.target.control_percent)},
      {"--values-mib", number(o.target.values_bytes)},
      {"--seed", number(o.mix.seed)},
      {"--clients", number(o.mix.clients)},
      {"--hot-keys", number(o.mix.hot_keys)},
      {"--operations-a-key", number(o.mix.operations_a_key)},
      {"--burst", number(o.mix.burst_max)},
      {"--large-burst", number(o.mix.large_burst_max)},
      {"--value-bytes", number(o.mix.value_bytes_max)},
      {"--value-sizes", number(o.mix.value_sizes)},
      {"--ballast-percent", number(o.mix.ballast_percent)},
      {"--old-percent", number(o.mix.old_percent)},
      {"--rewrite-percent", number(o.mix.rewrite_percent)},
      {"--expiry-percent", number(o.mix.expiry_percent)},
      {"--details", number(o.mix.details)},
      {"--touch-percent", number(o.mix.touch_percent)},
      {"--flush-every", number(o.mix.flush_every)},
      {"--scan-percent", number(o.mix.scan_percent)},
      {"--operations", number(o.operations)},
      {"--seconds", number(o.seconds)},
      {"--abandon-per-mille", number(o.abandon_per_mille)},
      {"--think-us", number(o.think_us)},
      {"--move-every-us", number(o.move_every_us)},
      {"--fault-every-us", number(o.fault_every_us)},
      {"--may-vanish", number(may_vanish)},
      {"--may-refuse", number(may_refuse)},
      {"--crash-within", number(o.crash_within)},
      {"--crash-serving", number(crash_serving)},
  };
  o.target.memory_bytes >>= 20;
  o.target.values_bytes >>= 20;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto found = all.find(words[i]);
    if (found == all.end() || i + 1 == words.size())
      throw std::invalid_argument(std::string("no such option: ") + words[i]);
    found->second(words[i + 1]);
  }
  o.target.memory_bytes <<= 20;
  o.target.values_bytes <<= 20;
  o.target.seed = o.mix.seed;
  o.may_vanish = may_vanish != 0;
  o.crash_serving = crash_serving != 0;
  o.target.evict = may_refuse == 0;
  if (o.out.empty() || o.mix.clients == 0 || o.mix.hot_keys == 0 || o.mix.burst_max == 0 ||
      std::max(o.mix.burst_max, o.mix.large_burst_max) > burst_max)
    throw std::invalid_argument("--out is needed; clients, hot keys and a burst of at most " +
                                std::to_string(burst_max));
  constexpr std::uint32_t scanned_keys_max = 8;  // of a group: the checker looks at all of them together
  if (o.mix.scan_percent != 0 && o.mix.hot_keys > scanned_keys_max)
    throw std::invalid_argument("scans are of at most " + std::to_string(scanned_keys_max) + " hot keys");
  return o;
}

}  // namespace tandem::record
