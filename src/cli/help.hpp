// Texts made from the table of options.
#pragma once
#include <string>

namespace tandem::cli {

std::string serve_help();
std::string memcached_help();          // what memcached -h prints, for what Tandem has of it
std::string memcached_version_line();  // what memcached -V prints, without the line end
std::string options_markdown();        // docs/options.md
std::string options_toml();            // deploy/tandem.toml: every option with its default, as comments

}  // namespace tandem::cli
