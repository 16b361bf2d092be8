#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/invocation.hpp"
#include "net/log.hpp"
#include "options/arguments.hpp"
#include "options/config_file.hpp"
#include "options/help.hpp"
#include "options/value.hpp"
#include "process/process.hpp"
#include "process/run_server.hpp"
#include "process/start_checks.hpp"

namespace tandem::cli {
namespace {

// Records the source of each option's value, for messages.
class Sources {
 public:
  Sources() : where_(all_options().size()) {}
  std::string& operator[](const Option& option) {
    return where_[static_cast<std::size_t>(&option - all_options().data())];
  }

 private:
  std::vector<std::string> where_;
};

CLI::Option* declare(CLI::App& app, const Option& option) {
  const std::string name =
      fmt::format("{}--{}", option.serve_letter ? fmt::format("-{},", option.letter) : "", option.name);
  if (option.kind == Kind::flag) return app.add_flag(fmt::format("{},!--no-{}", name, option.name));
  if (option.kind == Kind::count) return app.add_flag(fmt::format("-{},{}", option.letter, name));
  return app.add_option(name)
      ->type_name(std::string(placeholder(option)))
      ->multi_option_policy(option.kind == Kind::list ? CLI::MultiOptionPolicy::TakeAll
                                                      : CLI::MultiOptionPolicy::TakeLast);
}

void apply(const Option& option, const CLI::Option& given, Settings& settings) {
  if (option.kind == Kind::list) list_of(option, settings).clear();
  if (option.kind == Kind::count) {
    std::int64_t level = 0;
    for (const std::string& text : given.results()) level += text == "true" ? 1 : parse_integer(text);
    set_number(option, settings, static_cast<double>(level));
    return;
  }
  for (const std::string& text : given.results()) set_from_text(option, settings, text);
}

// `-m 1024` and `-m1024` follow memcached: a number without a unit is in MiB.
std::vector<std::string> with_mebibytes(std::span<const std::string> arguments) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  std::vector<std::string> out(arguments.begin(), arguments.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == "-m" && i + 1 < out.size() && is_number(out[i + 1]))
      out[++i] += "MiB";
    else if (out[i].starts_with("-m") && is_number(std::string_view(out[i]).substr(2)))
      out[i] += "MiB";
  }
  return out;
}

}  // namespace

Invocation parse_serve(std::span<const std::string> arguments) {
  Invocation result;
  result.settings = serve_defaults();
  CLI::App app("", "tandem serve");
  app.set_help_flag("-h,--help");
  const CLI::Option* config = app.add_option("--config")->type_name("FILE");
  app.add_flag("--check", result.only_checks);
  std::vector<std::pair<const Option*, const CLI::Option*>> declared;
  for (const Option& option : all_options()) {
    if (option.is_serve()) declared.emplace_back(&option, declare(app, option));
  }
  try {
    parse_or_refuse(app, with_mebibytes(arguments), "serve");
  } catch (const CLI::CallForHelp&) {
    result.output = serve_help();
    return result;
  }

  Sources sources;
  if (config->count() != 0) {
    apply_config_file(config->results().front(), result.settings,
                      [&](const Option& option, const std::string& where) { sources[option] = where; });
  }
  for (const auto& [option, given] : declared) {
    if (given->count() == 0) continue;
    try {
      apply(*option, *given, result.settings);
    } catch (const ValueError& error) {
      throw CommandError(EX_USAGE, fmt::format("--{}: {}", option->name, error.what()));
    }
    sources[*option] = fmt::format("--{}", option->name);
  }
  ServerOptions& server = result.settings.server;
  if (!server.tls.certificate.empty() && sources[*find_option("tls")].empty()) server.tls.enabled = true;
  const auto where = [&](const Option& option) {
    const std::string& source = sources[option];
    return source.empty() ? fmt::format("default of --{}", option.name) : source;
  };
  resolve_authentication(result.settings, where);
  const auto given = [&](const Option& option) {
    const std::string& source = sources[option];
    return source.empty() ? Given::no : source.starts_with("--") ? Given::on_command_line : Given::in_file;
  };
  UnmetNeeds unmet = unmet_needs(result.settings, serve_defaults(), given, where);
  if (!unmet.refusals.empty()) throw CommandError(EX_USAGE, fmt::format("{}", fmt::join(unmet.refusals, "\ntandem: ")));
  result.notices = std::move(unmet.warnings);
  check_together(result.settings, where);
  return result;
}

namespace {

// The arguments with the configuration file's absolute path, which a change of the working directory does not touch.
std::vector<std::string> with_absolute_config(std::span<const std::string> arguments) {
  constexpr std::string_view name = "--config", joined = "--config=";
  std::vector<std::string> out(arguments.begin(), arguments.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == name && i + 1 < out.size()) {
      ++i;
      out[i] = absolute_path(out[i]);
    } else if (out[i].starts_with(joined)) {
      out[i] = std::string(joined) + absolute_path(out[i].substr(joined.size()));
    }
  }
  return out;
}

// Lines for the log: what the file says now, and the running server does not.
std::vector<net::LogLine> changed_settings(std::span<const std::string> arguments, const Settings& started) {
  Settings now;
  try {
    now = parse_serve(arguments).settings;
  } catch (const CommandError& error) {
    return {{fmt::format("reload: {}; the settings stay as they were", error.what()), spdlog::level::warn}};
  }
  std::vector<net::LogLine> lines;
  for (const Option& option : all_options()) {
    if (!option.is_serve()) continue;
    const std::string was = show(option, started), is = show(option, now);
    if (was != is)
      lines.push_back({fmt::format("reload: {} stays {} until a restart: the file says {}", option.name,
                                   was.empty() ? "unset" : was, is.empty() ? "nothing" : is)});
  }
  return lines;
}

}  // namespace

int run_serve(std::span<const std::string> arguments) {
  const Invocation invocation = parse_serve(arguments);
  if (!invocation.output.empty()) {
    fmt::print("{}", invocation.output);
    return EX_OK;
  }
  net::set_log_format(static_cast<net::LogFormat>(invocation.settings.server.log_format));
  if (invocation.only_checks) return check_settings(invocation.settings, invocation.notices);
  for (const std::string& notice : invocation.notices) net::warn(notice);
  return run_server(invocation.settings, ServerStyle::tandem,
                    [again = with_absolute_config(arguments), started = invocation.settings] {
                      return changed_settings(again, started);
                    });
}

}  // namespace tandem::cli
