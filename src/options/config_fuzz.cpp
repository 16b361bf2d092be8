// Any bytes as a TOML file, a calibration, plans' costs, a size, a time and an address give valid settings, lines by
// which a cycle can be chosen, a port, or an error in words, nothing else.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "net/endpoint.hpp"
#include "options/calibration_file.hpp"
#include "options/config_file.hpp"
#include "options/plan_costs_file.hpp"
#include "options/value.hpp"
#include "planner/mix.hpp"

using namespace tandem::cli;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::uint64_t bytes = parse_size(text);
    TD_ASSERT(parse_size(format_size(bytes)) == bytes);
  } catch (const ValueError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  try {
    const std::uint64_t seconds = parse_seconds(text);
    TD_ASSERT(parse_seconds(format_seconds(seconds)) == seconds);
  } catch (const ValueError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  try {
    const tandem::net::Endpoint endpoint = tandem::net::parse_endpoint(text);
    TD_ASSERT(endpoint.port >= -1 && endpoint.port <= 65535 && endpoint.host.size() <= size);
  } catch (const std::invalid_argument& error) {
    TD_ASSERT(*error.what() != 0);
  }
  try {
    const CalibrationRecord record = parse_calibration(text, "fuzz.json");
    const tandem::CycleModel model{record.search.line, record.change.line, 0.95, 2};
    const double rate = tandem::rate_max(model, 1e5);
    TD_ASSERT(rate >= 0);
    const auto least_ns = tandem::cycle_min_ns(model, 0);
    TD_ASSERT(least_ns && *least_ns >= 0);
  } catch (const CalibrationError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  try {
    const tandem::Coefficients c = parse_plan_costs(text, "fuzz.json");
    const tandem::Profile profile{.set_share = 0.5,
                                  .query_bytes = c.sizes.front().query_bytes.front(),
                                  .theta = c.zipf_theta,
                                  .keys = c.sizes.front().keys,
                                  .store_bytes = c.sizes.front().store_bytes};
    if (const auto d = tandem::demand(c, profile, c.plans.front().candidate)) {
      const tandem::Mix mix = tandem::best_mix({&*d, 1}, tandem::machine_of(c, c.threads));
      TD_ASSERT(mix.rate > 0 && mix.first == 0 && mix.second == 0);
    }
  } catch (const CalibrationError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  Settings settings = serve_defaults();
  try {
    apply_config(text, "fuzz.toml", settings, [&](const Option& option, const std::string&) {
      // Every value that was set can be shown.
      const std::string value = show(option, settings);
      Settings copy = settings;
      if (option.kind == Kind::list) list_of(option, copy).clear();
      set_from_text(option, copy, value);
      TD_ASSERT(show(option, copy) == value);
    });
  } catch (const CommandError& error) {
    TD_ASSERT(*error.what() != 0);
  }
  return 0;
}
