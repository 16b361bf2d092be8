// Settings from a TOML file. Its keys are the names of `tandem serve`'s options.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "options/options.hpp"

namespace tandem::cli {

// Called for each option that the file sets, with the option and its place, such as "tandem.toml:3: port".
using OnSetting = std::function<void(const Option&, const std::string& where)>;

// Applies the text of a file to `settings`; `file` is its name in messages. Throws CommandError (EX_CONFIG) at the
// first unknown key, value of a wrong type or out of range, or syntax error, with a message "FILE:LINE: KEY: ...".
void apply_config(std::string_view text, std::string_view file, Settings& settings, const OnSetting& on_setting);

// The same for a file. Throws CommandError (EX_NOINPUT) if it cannot be read or is larger than 1 MiB.
void apply_config_file(const std::string& file, Settings& settings, const OnSetting& on_setting);

}  // namespace tandem::cli
