// Texts generated from the table of options.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "options/options.hpp"

namespace tandem::cli {

std::string serve_help();
std::string memcached_help();                    // memcached -h, for the options that Tandem has
std::string memcached_version_line();            // memcached -V, without the line end
std::string options_markdown();                  // docs/options.md
std::string options_toml();                      // deploy/tandem.toml: every option with its default, as comments
std::string manual_tandem();                     // tandem(1), in man(7)'s macros
std::string manual_toml();                       // tandem.toml(5)
std::string completion(std::string_view shell);  // a script for bash, zsh or fish. Throws CommandError.

// Parts of these texts. Code is in backticks.
struct ExitText {
  std::string_view codes;
  std::string_view text;
};
extern const std::string_view signals_text;
std::span<const ExitText> exit_texts();
std::string_view memcached_text(const Option& option);                          // the explanation of the letter
std::string memcached_usage(const Option& option);                              // -p, --port=<num>
std::string memcached_default(const Option& option, const Settings& settings);  // in memcached's units
bool takes_effect(const Option& option);                                        // false: merely accepted, or refused
std::string toml_value(const Option& option, const Settings& settings);

}  // namespace tandem::cli
