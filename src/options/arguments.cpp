#include "options/arguments.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <stdexcept>
#include <vector>

#include <CLI/CLI.hpp>

#include "options/options.hpp"
#include "options/suggest.hpp"
#include "options/value.hpp"

namespace tandem::cli {

namespace {

// The names of the command's options and of its groups of options.
void add_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* known : app.get_options())
    names.insert(names.end(), known->get_lnames().begin(), known->get_lnames().end());
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) add_names(*group, names);
}

[[noreturn]] void refuse(const CLI::App& app, std::string_view extra, std::string_view name) {
  if (!extra.starts_with('-'))
    throw CommandError(EX_USAGE, fmt::format("{}: unexpected argument {}", name, in_quotes(extra)));
  const std::string_view option = extra.substr(0, extra.find('='));
  std::vector<std::string> kept;
  add_names(app, kept);
  const std::vector<std::string_view> names(kept.begin(), kept.end());
  // A single letter resembles too many names.
  const std::string hint = option.starts_with("--") ? did_you_mean(option.substr(2), names, "--") : std::string();
  throw CommandError(EX_USAGE, fmt::format("{}: unknown option {}{}", name, in_quotes(option), hint));
}

// CLI11's "--port: 1 required NUMBER missing" in words.
std::string missing_value(std::string_view said) {
  constexpr std::string_view middle = ": 1 required ", end = " missing";
  const std::size_t at = said.find(middle);
  if (at == std::string_view::npos || !said.ends_with(end)) return std::string(said);
  const std::string_view value = said.substr(at + middle.size(), said.size() - end.size() - at - middle.size());
  return fmt::format("{} needs a value: {}", said.substr(0, at), value);
}

}  // namespace

void parse_or_refuse(CLI::App& app, std::span<const std::string> arguments, std::string_view name) {
  app.allow_extras();  // CLI11's own message does not keep their order
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ArgumentMismatch& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, missing_value(error.what())));
  } catch (const CLI::ParseError& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, error.what()));
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("{}: {}", name, error.what()));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) refuse(app, extras.front(), name);
}

std::optional<int> parse_arguments(CLI::App& app, std::span<const std::string> arguments, std::string_view name) {
  try {
    parse_or_refuse(app, arguments, name);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return EX_OK;
  }
  return std::nullopt;
}

}  // namespace tandem::cli
