#include "options/needs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/index_kinds.hpp"
#include "options/options.hpp"
#include "preset/preset.hpp"

namespace tandem::cli {
namespace {

const PresetRow& preset_of(const Settings& s) { return presets()[s.server.preset]; }
const IndexKindRow& index_of(const Settings& s) { return index_kind_named(index_kind_of(s)); }

}  // namespace

namespace needs {

bool uses_gpu(const Settings& s) { return preset_of(s).offload != Offload::never && s.gpu.which != "off"; }
bool index_beside_gpu(const Settings& s) { return index_kind_of(s) == preset_of(s).index_kind || !uses_gpu(s); }
bool gpu_as_preset(const Settings& s) { return s.gpu.which == "off" || preset_of(s).offload != Offload::never; }
bool preset_with_its_gpu(const Settings& s) { return s.gpu.which != "off" || !preset_of(s).needs_device; }
bool host_beside_gpu(const Settings& s) { return uses_gpu(s) && !preset_of(s).index_on_device(); }
bool copies_of_items(const Settings& s) {
  return host_beside_gpu(s) && preset_of(s).value_bytes(s.gpu.values_bytes, s.engine.memory_bytes) != 0;
}
bool threshold(const Settings& s) { return uses_gpu(s) && preset_of(s).has_threshold; }
bool cycle_of_preset(const Settings& s) { return uses_gpu(s) && preset_of(s).sets_cycle; }
bool free_cycle(const Settings& s) { return s.gpu.cycle_us == 0; }
bool latency_target(const Settings& s) { return s.gpu.latency_target_us != 0; }
bool index_on_gpu(const Settings& s) { return uses_gpu(s) && preset_of(s).index_on_device(); }
bool hot_keys(const Settings& s) { return uses_gpu(s) && preset_of(s).learns_hot_keys; }
bool no_driver(const Settings& s) {
  const bool asks = preset_of(s).needs_device || s.gpu.which != "auto";
  return !uses_gpu(s) || !asks || s.gpu.which == "sim";
}
bool may_be_ordered(const Settings& s) { return index_of(s).can_be_ordered || index_of(s).is_always_ordered; }
bool order(const Settings& s) { return s.engine.ordered || index_of(s).is_always_ordered; }
bool eviction(const Settings& s) { return s.engine.evict; }
bool no_index_power(const Settings& s) { return s.engine.index_power == 0; }
bool tls(const Settings& s) { return s.server.tls.enabled; }
bool network(const Settings& s) { return s.server.unix_path.empty(); }
bool unix_socket(const Settings& s) { return !network(s); }
bool control(const Settings& s) { return !s.server.control_path.empty(); }
bool metrics(const Settings& s) { return !s.server.metrics.empty(); }
bool sasl(const Settings& s) { return s.server.sasl; }
bool watch(const Settings& s) { return s.server.watch_enabled; }

}  // namespace needs

namespace {

bool asks_for_something(const Option& option, const Settings& settings, const Settings& defaults, Given given) {
  if (option.field == nullptr || given == Given::no) return false;
  const std::string value = show(option, settings);
  const bool differs = value != show(option, defaults);
  if (option.kind != Kind::flag) return differs;
  return value == "true" && (differs || given == Given::on_command_line);
}

// "preset is cpu, gpu is auto".
std::string described(std::string_view names, const Settings& settings) {
  std::string out;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    const Option& option = *find_option(names.substr(0, end));
    const std::string value = show(option, settings);
    out += fmt::format("{}{} is {}", out.empty() ? "" : ", ", option.name, value.empty() ? "not given" : value);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return out;
}

}  // namespace

UnmetNeeds unmet_needs(const Settings& settings, const Settings& defaults,
                       const std::function<Given(const Option&)>& given,
                       const std::function<std::string(const Option&)>& where) {
  UnmetNeeds unmet;
  for (const Option& option : all_options()) {
    if (!asks_for_something(option, settings, defaults, given(option))) continue;
    for (const Need& need : option.needs) {
      if (need.is_met == nullptr || need.is_met(settings)) continue;
      (need.only_warns ? unmet.warnings : unmet.refusals)
          .push_back(fmt::format("{}: {} ({})", where(option), need.why, described(need.decided_by, settings)));
      break;
    }
  }
  return unmet;
}

}  // namespace tandem::cli
