#include "options/options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "options/config_file.hpp"
#include "options/control_group.hpp"
#include "options/help.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

// Tests run in the source root.
std::string read_file(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Options, NamesAreUnique) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const Option& o : all_options()) {
    EXPECT_FALSE(o.help.empty()) << o.name << o.letter;
    EXPECT_TRUE(o.is_serve() || o.effect != Effect::none || !o.extended.empty());
    EXPECT_EQ(o.is_serve(), o.field != nullptr) << o.name << o.letter;
    if (o.is_serve()) {
      EXPECT_TRUE(names.insert(o.name).second) << o.name;
      EXPECT_FALSE(o.group.empty()) << o.name;
    }
    if (o.letter != 0) {
      EXPECT_TRUE(letters.insert(o.letter).second) << o.letter;
    }
    if (!o.extended.empty()) {
      EXPECT_EQ(find_extended(o.extended), &o);
    }
  }
  EXPECT_EQ(names.count("config"), 0u) << "--config is the command's own";
}

// The letters and long names of memcached 1.6.18's getopt_long() (its -h, and its manual for --napi-ids).
TEST(Options, EveryLetterOfMemcachedIsKnown) {
  const std::map<char, std::string_view> expected = {
      {'a', "unix-mask"},
      {'A', "enable-shutdown"},
      {'Z', "enable-ssl"},
      {'p', "port"},
      {'s', "unix-socket"},
      {'U', "udp-port"},
      {'m', "memory-limit"},
      {'M', "disable-evictions"},
      {'c', "conn-limit"},
      {'k', "lock-memory"},
      {'h', "help"},
      {'i', "license"},
      {'V', "version"},
      {'r', "enable-coredumps"},
      {'v', "verbose"},
      {'d', "daemon"},
      {'l', "listen"},
      {'u', "user"},
      {'P', "pidfile"},
      {'f', "slab-growth-factor"},
      {'n', "slab-min-size"},
      {'t', "threads"},
      {'L', "enable-largepages"},
      {'R', "max-reqs-per-event"},
      {'C', "disable-cas"},
      {'b', "listen-backlog"},
      {'B', "protocol"},
      {'I', "max-item-size"},
      {'S', "enable-sasl"},
      {'F', "disable-flush-all"},
      {'X', "disable-dumping"},
      {'W', "disable-watch"},
      {'Y', "auth-file"},
      {'e', "memory-file"},
      {'o', "extended"},
      {'N', "napi-ids"},
      {'D', ""},
  };
  std::map<char, std::string_view> known;
  for (const Option& o : all_options()) {
    if (o.letter != 0) known[o.letter] = o.long_name;
  }
  EXPECT_EQ(known, expected);
}

TEST(Options, ShownValuesAreTaken) {
  for (const Settings& defaults : {serve_defaults(), memcached_defaults()}) {
    for (const Option& o : all_options()) {
      if (!o.is_serve()) continue;
      const std::string text = show(o, defaults);
      if (text.empty()) continue;  // no file, no user
      Settings settings = defaults;
      if (o.kind == Kind::list) list_of(o, settings).clear();
      set_from_text(o, settings, text);
      EXPECT_EQ(show(o, settings), text) << o.name;
    }
  }
}

TEST(Options, EachWritesItsOwnField) {
  Settings settings = serve_defaults();
  std::set<const void*> fields;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    const void* address = std::visit([](auto* field) -> const void* { return field; }, o.field(settings));
    EXPECT_TRUE(fields.insert(address).second) << o.name;
  }
}

TEST(Options, RangesHold) {
  for (const Option& o : all_options()) {
    const bool ranged =
        o.kind == Kind::integer || o.kind == Kind::real || o.kind == Kind::size || o.kind == Kind::count;
    if (!o.is_serve() || !ranged) continue;
    Settings settings = serve_defaults();
    set_number(o, settings, o.minimum);
    set_number(o, settings, o.maximum);
    EXPECT_LT(o.minimum, o.maximum) << o.name;
    const std::string at_maximum = show(o, settings);
    EXPECT_THROW(set_number(o, settings, o.minimum - 1), ValueError) << o.name;
    EXPECT_THROW(set_number(o, settings, o.maximum + 1), ValueError) << o.name;
    EXPECT_EQ(show(o, settings), at_maximum) << "a refused value changes nothing";
  }
}

TEST(Options, DefaultsAreTheDocumentedOnes) {
  const Settings serve = serve_defaults();
  EXPECT_EQ(serve.server.listen, std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(serve.server.tcp_port, 11211);
  EXPECT_EQ(serve.server.udp_port, 0);
  EXPECT_GE(serve.server.threads, 1u);
  EXPECT_EQ(serve.server.threads, std::min(1024u, process_limits().processors));
  EXPECT_EQ(serve.engine.memory_bytes, default_memory_bytes(process_limits().memory_bytes));
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  EXPECT_EQ(default_memory_bytes(ProcessLimits::unlimited), 1024 * mib);
  EXPECT_EQ(default_memory_bytes(8192 * mib), 1024 * mib);
  EXPECT_EQ(default_memory_bytes(512 * mib), 384 * mib);
  EXPECT_EQ(default_memory_bytes(512 * mib - 4096), 383 * mib);  // whole MiB
  EXPECT_EQ(default_memory_bytes(1), 4 * mib);                   // the minimum of a store
  const Settings memcached = memcached_defaults();
  EXPECT_EQ(memcached.server.listen, std::vector<std::string>{"*"});
  EXPECT_EQ(memcached.server.tcp_port, 11211);
  EXPECT_EQ(memcached.server.udp_port, 0);
  EXPECT_EQ(memcached.server.threads, 4u);
  EXPECT_EQ(memcached.server.connections_max, 1024u);
  EXPECT_EQ(memcached.engine.memory_bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(memcached.engine.item_bytes_max, std::uint64_t{1} << 20);
}

TEST(Options, DocsAreUpToDate) {
  EXPECT_EQ(read_file("docs/options.md"), options_markdown()) << "build/bin/tandem options > docs/options.md";
  EXPECT_EQ(read_file("deploy/tandem.toml"), options_toml()) << "build/bin/tandem options --toml > deploy/tandem.toml";
}

TEST(Options, ExampleFileIsTheDefaults) {
  Settings settings = serve_defaults();
  // Values that the file must overwrite.
  settings.server.tcp_port = 1;
  settings.server.listen = {"x", "y"};
  settings.engine.evict = false;
  std::size_t count = 0;
  apply_config(options_toml(), "tandem.toml", settings, [&](const Option&, const std::string&) { ++count; });
  EXPECT_GT(count, 15u);
  const Settings defaults = serve_defaults();
  for (const Option& o : all_options()) {
    if (o.is_serve()) {
      EXPECT_EQ(show(o, settings), show(o, defaults)) << o.name;
    }
  }
}

TEST(Options, HelpNamesEveryOption) {
  const std::string serve = serve_help();
  const std::string memcached = memcached_help();
  for (const Option& o : all_options()) {
    if (o.is_serve()) {
      EXPECT_NE(serve.find(std::string(o.name)), std::string::npos) << o.name;
    }
    if (o.letter != 0) {
      EXPECT_NE(memcached.find(std::string("-") + o.letter), std::string::npos) << o.letter;
    }
  }
  EXPECT_TRUE(memcached.starts_with("memcached 1.6.18 (tandem ")) << memcached;
  for (const std::string* text : {&serve, &memcached}) {
    std::stringstream lines(*text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace tandem::cli
