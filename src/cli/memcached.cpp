#include <fmt/format.h>
#include <getopt.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "cli/command.hpp"
#include "cli/invocation.hpp"
#include "codec/dialect.hpp"
#include "net/endpoint.hpp"
#include "net/log.hpp"
#include "options/help.hpp"
#include "options/suggest.hpp"
#include "options/value.hpp"
#include "process/process.hpp"
#include "process/run_server.hpp"

namespace tandem::cli {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr int item_header_bytes = sizeof(Item);

// What memcached 1.6 takes with -o and has no counterpart here. Anything else is refused, as memcached does: a slip in
// a name that is about security would leave a server open.
constexpr std::string_view memcached_suboptions[] = {
    "no_hashexpand",        "slab_automove",     "slab_automove_ratio", "slab_automove_freeratio",
    "slab_automove_window", "no_slab_automove",  "slab_sizes",          "slab_chunk_max",
    "tail_repair_time",     "hash_algorithm",    "hot_lru_pct",         "warm_lru_pct",
    "hot_max_factor",       "warm_max_factor",   "temporary_ttl",       "no_inline_ascii_resp",
    "inline_ascii_resp",    "no_chunked_items",  "resp_obj_mem_limit",  "relaxed_privileges",
    "ssl_wbuf_size",        "ext_page_size",     "ext_wbuf_size",       "ext_threads",
    "ext_io_depth",         "ext_item_size",     "ext_item_age",        "ext_low_ttl",
    "ext_recache_rate",     "ext_compact_under", "ext_drop_under",      "ext_max_frag",
    "ext_max_sleep",        "ext_drop_unread"};

class MemcachedParser {
 public:
  MemcachedParser() { result_.settings = memcached_defaults(); }

  Invocation parse(std::span<const std::string> arguments) {
    std::vector<std::string> storage = {"memcached"};
    storage.insert(storage.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : storage) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string letters;
    std::vector<::option> names;
    declare(letters, names);
    optind = 0;  // glibc: reset getopt
    while (result_.output.empty()) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): before any other thread
      const int letter =
          getopt_long(static_cast<int>(argv.size() - 1), argv.data(), letters.c_str(), names.data(), nullptr);
      if (letter == -1) break;
      const Option* option = letter == '?' ? nullptr : find_letter(static_cast<char>(letter));
      if (option == nullptr) throw CommandError(1, "Illegal argument \"?\"");  // getopt_long() has printed the error
      take(*option, optarg != nullptr ? optarg : "");
    }
    if (result_.output.empty()) check();
    return std::move(result_);
  }

 private:
  static void declare(std::string& letters, std::vector<::option>& names) {
    for (const Option& o : all_options()) {
      if (o.letter == 0) continue;
      letters += o.letter;
      if (!o.argument.empty()) letters += ':';
      if (o.long_name.empty()) continue;
      const int argument = !o.argument.empty()         ? required_argument
                           : o.effect == Effect::count ? optional_argument
                                                       : no_argument;
      // Literals, which are null-terminated. NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage)
      names.push_back({o.long_name.data(), argument, nullptr, o.letter});
    }
    names.push_back({nullptr, 0, nullptr, 0});
  }

  void notice(std::string text) { result_.notices.push_back(std::move(text)); }

  // atoi(), which reads as much as it can; the notice reports unread text.
  int number(std::string_view what, std::string_view text, int base = 10) {
    const std::string copy(text);
    char* end = nullptr;
    errno = 0;
    const long value = std::strtol(copy.c_str(), &end, base);
    const int taken = value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : static_cast<int>(value);
    if (end != copy.c_str() + copy.size() || end == copy.c_str()) {
      notice(fmt::format("{} {} is not a number, taken as {}", what, in_quotes(text), taken));
    }
    return taken;
  }

  void store_number(const Option& o, std::string_view what, double value) {
    if (value < o.minimum && !o.low_error.empty()) throw CommandError(1, std::string(o.low_error));
    if (value > o.maximum && (o.letter == 'p' || o.letter == 'U')) {
      throw CommandError(EX_USAGE, fmt::format("ERROR: Invalid port number {}.", value));
    }
    try {
      set_number(o, result_.settings, value);
    } catch (const ValueError& error) {
      throw CommandError(EX_USAGE, fmt::format("{}: {}", what, error.what()));
    }
  }

  void take(const Option& o, std::string_view text) {
    given_.push_back(&o);
    const std::string what = fmt::format("-{}", o.letter);
    Settings& settings = result_.settings;
    switch (o.effect) {
      case Effect::value:
        if (text.empty() && !o.low_error.empty()) throw CommandError(1, std::string(o.low_error));
        o.kind == Kind::list ? take_listen(text) : void(text_of(o, settings) = text);
        return;
      case Effect::number:
        return take_number(o, what, text);
      case Effect::real:
        return take_factor(o, what, text);
      case Effect::octal:
        settings.server.unix_mask = static_cast<unsigned>(number(what, text, 8)) & 0777u;
        return;
      case Effect::mebibytes:
        settings.engine.memory_bytes = static_cast<std::uint64_t>(std::max(0, number(what, text))) * mebibyte;
        return;
      case Effect::item_bytes:
        return take_item_bytes(what, text);
      case Effect::slot_bytes: {
        const int bytes = number(what, text);
        store_number(o, what, bytes <= 0 ? 0 : double{item_header_bytes} + bytes);
        return;
      }
      case Effect::turn_on:
      case Effect::turn_off:
        set_flag(o, settings, o.effect == Effect::turn_on);
        return;
      case Effect::large_pages:
        return take_large_pages(o);
      case Effect::count:
        settings.server.verbosity = std::min(settings.server.verbosity + 1, static_cast<int>(o.maximum));
        return;
      case Effect::help:
      case Effect::version:
      case Effect::license:
        return print(o.effect);
      case Effect::protocol:
        return take_protocol(text);
      case Effect::extended:
        return take_extended(text);
      case Effect::delimiter:
        return take_delimiter(o, text);
      case Effect::ignored_text:
        if (text.empty() && !o.low_error.empty()) throw CommandError(1, std::string(o.low_error));
        [[fallthrough]];
      case Effect::ignored:
        notice(fmt::format("{} ({}) has no effect, ignored", what, o.help));
        return;
      case Effect::refused:
        throw CommandError(EX_USAGE, fmt::format("{} ({}) is not supported yet", what, o.help));
      case Effect::strict:
      case Effect::none:
        return;
    }
  }

  void take_number(const Option& o, const std::string& what, std::string_view text) {
    store_number(o, what, number(what, text));
    if (o.letter == 'p') tcp_given_ = true;
    if (o.letter == 't' && result_.settings.server.threads > 64)
      notice("WARNING: more than 64 threads; there is no use in more than the machine has cores");
  }

  void take_large_pages(const Option& o) {
    if (const std::string why = huge_pages_missing(); !why.empty())
      throw CommandError(1, fmt::format("{}\nCannot enable large pages on this system", why));
    set_flag(o, result_.settings, true);
  }

  void take_delimiter(const Option& o, std::string_view text) {
    if (text.empty()) throw CommandError(1, std::string(o.low_error));
    text_of(o, result_.settings) = text.substr(0, 1);
    result_.settings.server.detail_enabled = true;
  }

  void print(Effect effect) {
    result_.output = effect == Effect::help ? memcached_help() : memcached_version_line() + "\n";
    if (effect == Effect::license) {
      result_.output +=
          "\nLicensed under the Apache License, Version 2.0. Contains no code of memcached or libevent.\n";
    }
  }

  void take_listen(std::string_view text) {
    std::vector<std::string>& listen = result_.settings.server.listen;
    if (!std::exchange(listen_given_, true)) listen.clear();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(",;"), text.size());
      const std::string_view entry = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!entry.empty()) listen.emplace_back(entry);
    }
    if (listen.empty()) throw CommandError(EX_USAGE, "-l: no address");
  }

  void take_factor(const Option& o, std::string_view what, std::string_view text) {
    const std::string copy(text);
    char* end = nullptr;
    const double factor = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size() || end == copy.c_str()) {
      notice(fmt::format("{} {} is not a number, taken as {}", what, in_quotes(text), factor));
    }
    if (!(factor > 1)) throw CommandError(1, std::string(o.low_error));
    // Below the smallest factor memcached runs out of classes; here neighbours 1 % apart are the finest.
    store_number(o, what, std::max(factor, o.minimum));
  }

  void take_item_bytes(std::string_view what, std::string_view text) {
    std::int64_t factor = 1;
    if (!text.empty()) {
      const char unit = text.back();
      factor = unit == 'k' || unit == 'K' ? 1024 : unit == 'm' || unit == 'M' ? 1024 * 1024 : 1;
    }
    if (factor != 1) text.remove_suffix(1);
    item_bytes_ = number(what, text) * factor;
  }

  void take_protocol(std::string_view text) {
    if (!dialect_of(text)) {
      throw CommandError(EX_USAGE, fmt::format("Invalid value for binding protocol: {}\n"
                                               " -- should be one of auto, binary, or ascii",
                                               text));
    }
    result_.settings.server.protocol = text;
    protocol_given_ = true;
  }

  void take_extended(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      const std::string_view entry = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!entry.empty()) take_extended_entry(entry);
    }
  }

  void take_extended_entry(std::string_view entry) {
    const std::size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    const bool negated = name.starts_with("no_");
    if (name == "modern" || name == "no_modern") return take_modern(!negated);
    const Option* o = find_extended(negated ? name.substr(3) : name);
    const std::string what = fmt::format("-o {}", name);
    if (o != nullptr) given_.push_back(o);
    if (o != nullptr && o->effect == Effect::refused) {
      if (!negated) throw CommandError(EX_USAGE, fmt::format("{} ({}) is not supported yet", what, o->help));
    } else if (o != nullptr && o->kind == Kind::flag) {
      set_flag(*o, result_.settings, !negated);
    } else if (o != nullptr && !negated && o->kind == Kind::text) {
      if (equals == std::string_view::npos) throw CommandError(1, fmt::format("Missing {} argument", name));
      text_of(*o, result_.settings) = entry.substr(equals + 1);
    } else if (o != nullptr && !negated && is_own(*o)) {  // in its own words and units
      if (equals == std::string_view::npos) throw CommandError(1, fmt::format("Missing {} argument", name));
      try {
        set_from_text(*o, result_.settings, entry.substr(equals + 1));
      } catch (const ValueError& error) {
        throw CommandError(EX_USAGE, fmt::format("{}: {}", what, error.what()));
      }
    } else if (o != nullptr && !negated && o->effect == Effect::strict) {
      if (equals == std::string_view::npos) throw CommandError(1, fmt::format("Missing {} argument", name));
      take_strict(*o, entry.substr(equals + 1));
    } else if (o != nullptr && !negated) {
      if (o->kind == Kind::text) {
        if (equals == std::string_view::npos) throw CommandError(1, fmt::format("Missing argument for {}", name));
        text_of(*o, result_.settings) = entry.substr(equals + 1);
        return;
      }
      if (equals == std::string_view::npos) throw CommandError(1, fmt::format("Missing numeric argument for {}", name));
      store_number(*o, what, number(what, entry.substr(equals + 1)));
    } else if (std::ranges::find(memcached_suboptions, name) != std::end(memcached_suboptions)) {
      notice(fmt::format("-o {} has no effect, ignored", in_quotes(entry)));
    } else {
      const std::string hint =
          o != nullptr ? std::string()
                       : did_you_mean(negated ? name.substr(3) : name, extended_option_names(), negated ? "no_" : "");
      throw CommandError(1, fmt::format("Illegal suboption {}{}", in_quotes(entry), hint));
    }
  }

  // What memcached once turned on by this name has been its default for long; off, they go together.
  void take_modern(bool on) {
    if (on) return;
    for (const std::string_view name : {"maxconns_fast", "slab_reassign", "lru_crawler", "lru_maintainer"})
      set_flag(*find_extended(name), result_.settings, false);
  }

  // Numbers that memcached rejects if any text remains.
  void take_strict(const Option& o, std::string_view text) {
    const std::string copy(text);
    char* end = nullptr;
    errno = 0;
    const long value = std::strtol(copy.c_str(), &end, 10);
    if (end == copy.c_str() || *end != 0 || errno != 0)
      throw CommandError(1, fmt::format("could not parse argument to {}", o.extended));
    try {
      set_number(o, result_.settings, static_cast<double>(value));
    } catch (const ValueError&) {
      throw CommandError(1, fmt::format("Invalid {}. Use help to see valid options.", o.extended));
    }
  }

  // In memcached's order, with its messages and codes.
  void check() {
    ServerOptions& server = result_.settings.server;
    EngineOptions& engine = result_.settings.engine;
    if (item_bytes_ < 1024) throw CommandError(EX_USAGE, "Item max size cannot be less than 1024 bytes.");
    if (static_cast<std::uint64_t>(item_bytes_) > engine.memory_bytes / 2) {
      throw CommandError(EX_USAGE, "Cannot set item size limit higher than 1/2 of memory max.");
    }
    if (item_bytes_ > std::int64_t{1} << 30) {
      throw CommandError(EX_USAGE, "Cannot set item size limit higher than a gigabyte.");
    }
    engine.item_bytes_max = static_cast<std::uint64_t>(item_bytes_);
    const Option& memory = *find_option("memory");
    const auto least = static_cast<std::uint64_t>(memory.minimum);
    if (engine.memory_bytes < least) {
      notice(fmt::format("-m is raised to {}, the least", format_size(least)));
      engine.memory_bytes = least;
    }
    store_number(memory, "-m", static_cast<double>(engine.memory_bytes));
    if (server.udp_port != 0 && !tcp_given_) server.tcp_port = server.udp_port;
    for (const std::string& entry : server.listen) {
      try {
        if (net::parse_endpoint(entry).plain && !server.tls.enabled)
          throw std::invalid_argument("'notls' option is valid only when SSL is enabled");
      } catch (const std::invalid_argument& error) {
        throw CommandError(EX_OSERR,
                           fmt::format("failed to listen on one of interface(s) {}: {}", entry, error.what()));
      }
    }
    if (server.tls.enabled && server.tcp_port == 0)
      throw CommandError(EX_USAGE, "ERROR: You cannot enable SSL without a TCP port.");
    check_unix_path(result_.settings, "-s");
    check_control(result_.settings, "-o control");
    check_eviction(result_.settings, "-o eviction");
    check_gpu(result_.settings, "-o gpu");
    check_gpus(result_.settings, "-o gpus");
    check_metrics(result_.settings, "-o metrics");
    check_xdp(result_.settings, "-o xdp");
    check_authentication(server);
    note_unmet_needs();
  }

  // memcached ignores such options without a word.
  void note_unmet_needs() {
    const auto given = [this](const Option& o) {
      return std::ranges::find(given_, &o) != given_.end() ? Given::on_command_line : Given::no;
    };
    const auto where = [](const Option& o) {
      return o.extended.empty() ? fmt::format("-{}", o.letter) : fmt::format("-o {}", o.extended);
    };
    const UnmetNeeds unmet = unmet_needs(result_.settings, memcached_defaults(), given, where);
    for (const auto* messages : {&unmet.refusals, &unmet.warnings})
      result_.notices.insert(result_.notices.end(), messages->begin(), messages->end());
  }

  // Options that memcached has not, and that take more than a number.
  static bool is_own(const Option& o) {
    return o.kind == Kind::size || (o.kind == Kind::choice && o.effect == Effect::none);
  }

  // memcached allows only one of -S and -Y; together, each applies to the clients of its own protocol.
  void check_authentication(ServerOptions& server) {
    const bool sasl = server.sasl, text = !server.auth_file.empty(), udp = server.udp_port != 0;
    if (sasl) {
      if (!text && protocol_given_ && server.protocol != "binary") {
        throw CommandError(EX_USAGE, "ERROR: You cannot allow the ASCII protocol while using SASL.");
      }
      if (udp) throw CommandError(EX_USAGE, "ERROR: Cannot enable UDP while using binary SASL authentication.");
      if (server.sasl_file.empty()) take_sasl_file_from_environment(server);
      if (server.sasl_file.empty()) {
        throw CommandError(EX_USAGE, "-S: MEMCACHED_SASL_PWDB must name a file with lines user:password");
      }
    }
    if (text) {
      if (!sasl && protocol_given_ && server.protocol != "ascii") {
        throw CommandError(EX_USAGE,
                           "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.");
      }
      if (udp) {
        throw CommandError(EX_USAGE, "Cannot use UDP with ascii authentication enabled (-U 0 to disable)");
      }
    }
  }

  Invocation result_;
  std::vector<const Option*> given_;
  std::int64_t item_bytes_ = mebibyte;
  bool tcp_given_ = false, listen_given_ = false, protocol_given_ = false;
};

}  // namespace

Invocation parse_memcached(std::span<const std::string> arguments) { return MemcachedParser().parse(arguments); }

int run_memcached(std::span<const std::string> arguments) {
  const Invocation invocation = parse_memcached(arguments);
  net::set_log_format(static_cast<net::LogFormat>(invocation.settings.server.log_format));
  for (const std::string& notice : invocation.notices) net::warn(notice);
  if (!invocation.output.empty()) {
    fmt::print("{}", invocation.output);
    return EX_OK;
  }
  return run_server(invocation.settings, ServerStyle::memcached, [] { return std::vector<net::LogLine>(); });
}

}  // namespace tandem::cli
