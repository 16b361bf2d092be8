// What an option needs of other options to take effect. The table of options names a need beside each option that has
// one; unmet_needs() goes through the table, so that no option is ignored without a word.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

struct Settings;
struct Option;

struct Need {
  bool (*is_met)(const Settings&) = nullptr;  // nullptr: nothing is needed
  std::string_view why = {};                  // what the option lacks, for the message
  std::string_view decided_by = {};           // the options that is_met() reads, joined by commas
  bool only_warns = false;                    // what the user gets is what was asked for, in other words
};

namespace needs {
bool uses_gpu(const Settings& s);
bool index_beside_gpu(const Settings& s);
bool gpu_as_preset(const Settings& s);
bool preset_with_its_gpu(const Settings& s);
bool host_beside_gpu(const Settings& s);
bool copies_of_items(const Settings& s);
bool threshold(const Settings& s);
bool cycle_of_preset(const Settings& s);
bool free_cycle(const Settings& s);
bool latency_target(const Settings& s);
bool index_on_gpu(const Settings& s);
bool hot_keys(const Settings& s);
bool no_driver(const Settings& s);
bool may_be_ordered(const Settings& s);
bool order(const Settings& s);
bool eviction(const Settings& s);
bool no_index_power(const Settings& s);
bool tls(const Settings& s);
bool network(const Settings& s);
bool unix_socket(const Settings& s);
bool control(const Settings& s);
bool metrics(const Settings& s);
bool sasl(const Settings& s);
bool watch(const Settings& s);
}  // namespace needs

enum class Given : std::uint8_t { no, in_file, on_command_line };

// Messages about given options with needs that are not met, in the order of the table. A default counts only if it is a
// switch that was turned on on the command line: files may list all options.
struct UnmetNeeds {
  std::vector<std::string> refusals, warnings;
};
UnmetNeeds unmet_needs(const Settings& settings, const Settings& defaults,
                       const std::function<Given(const Option&)>& given,
                       const std::function<std::string(const Option&)>& where);

}  // namespace tandem::cli
