#include <gtest/gtest.h>
#include <sysexits.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/accepted_arguments.hpp"
#include "cli/invocation.hpp"
#include "options/config_file.hpp"

namespace tandem::cli {
namespace {

// A temporary file, removed at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) {
    path_ = (std::filesystem::temp_directory_path() / "tandem_serve_test_XXXXXX").string();
    const int fd = mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Serve, TakesOptions) {
  const std::vector<Accepted> cases = {
      {{}, {{"listen", "127.0.0.1"}, {"port", "11211"}, {"udp-port", "0"}, {"memory", "1GiB"}, {"verbose", "0"}}},
      {{"--port", "1234"}, {{"port", "1234"}}},
      {{"-p", "1234", "-t", "3", "-c", "77", "-l", "::1"},
       {{"port", "1234"}, {"threads", "3"}, {"connections", "77"}, {"listen", "::1"}}},
      {{"-p1234", "-m2048"}, {{"port", "1234"}, {"memory", "2GiB"}}},
      {{"-m", "64"}, {{"memory", "64MiB"}}},
      {{"-m", "1.5g"}, {{"memory", "1536MiB"}}},
      {{"-m", "2GB"}, {{"memory", "2GiB"}}},
      {{"--memory", "67108864"}, {{"memory", "64MiB"}}},  // bytes, as in the file
      {{"--port=1234", "--udp-port=0"}, {{"port", "1234"}, {"udp-port", "0"}}},
      {{"--port", "-1"}, {{"port", "-1"}}},
      {{"--port", "1", "--port", "2"}, {{"port", "2"}}},
      {{"--listen", "127.0.0.1:11,[::1]:12", "--listen", "*"}, {{"listen", "127.0.0.1:11,[::1]:12,*"}}},
      {{"--memory", "2.5GiB", "--item-max", "2m"}, {{"memory", "2560MiB"}, {"item-max", "2MiB"}}},
      {{"--no-evict", "--no-cas", "--no-flush"}, {{"evict", "false"}, {"cas", "false"}, {"flush", "false"}}},
      {{"--evict=false", "--daemon"}, {{"evict", "false"}, {"daemon", "true"}}},
      {{"--no-evict", "--evict"}, {{"evict", "true"}}},
      {{"-vv"}, {{"verbose", "2"}}},
      {{"-v", "--verbose"}, {{"verbose", "2"}}},
      {{"--idle-timeout", "15m"}, {{"idle-timeout", "15m"}}},
      {{"--unix", "/run/tandem.sock", "--unix-mode", "660"}, {{"unix", "/run/tandem.sock"}, {"unix-mode", "660"}}},
      {{"--growth-factor", "1.1"}, {{"growth-factor", "1.1"}}},
      {{"--sasl", "--sasl-file", "/etc/s"}, {{"sasl", "true"}, {"sasl-file", "/etc/s"}, {"udp-port", "0"}}},
      {{"--auth-file", "/etc/a"}, {{"auth-file", "/etc/a"}, {"udp-port", "0"}}},
      {{"--auth-file", "/etc/a", "--sasl", "--sasl-file", "/etc/s", "--protocol", "binary"}, {{"protocol", "binary"}}},
      {{"--protocol", "ascii"}, {{"protocol", "ascii"}, {"udp-port", "0"}}},
      {{"--preset", "mega-kv", "--gpu-latency-target", "300", "--gpu-rate", "12.5", "--gpu-calibration", "/c"},
       {{"gpu-latency-target", "300"}, {"gpu-rate", "12.5"}, {"gpu-get-share", "95"}, {"gpu-calibration", "/c"}}},
      {{"--preset", "mega-kv", "--gpu-cycle", "50", "--gpu-calibration", "/c"}, {{"gpu-cycle", "50"}}},
      {{"--preset", "auto", "--gpu-batch-min", "512"}, {{"gpu-batch-min", "512"}}},
      {{"--user", "nobody", "--pid-file", "/run/x.pid"}, {{"user", "nobody"}, {"pid-file", "/run/x.pid"}}},
  };
  for (const Accepted& c : cases) {
    const Invocation result = parse_serve(c.arguments);
    EXPECT_TRUE(result.output.empty());
    for (const auto& [name, value] : c.values) {
      EXPECT_EQ(value_of(name, result.settings), value) << name << testing::PrintToString(c.arguments);
    }
  }
}

struct Refused {
  Arguments arguments;
  std::string message;
};

TEST(Serve, RefusesBadOptions) {
  const std::vector<Refused> cases = {
      {{"--port", "65536"}, "--port: expected an integer from -1 to 65535, got 65536"},
      {{"--port", "http"}, "--port: expected an integer, got \"http\""},
      {{"--port", ""}, "--port: expected an integer, got \"\""},
      {{"--port", "80", "--port", "x"}, "--port: expected an integer, got \"x\""},
      {{"--memory", "lots"}, "--memory: expected a size in bytes, KiB, MiB, GiB or TiB such as 512MiB, got \"lots\""},
      {{"--memory", "1MiB"}, "--memory: expected a size from 4MiB to 128GiB, got 1MiB"},
      {{"--memory", "64MiB", "--item-max", "33MiB"}, "--item-max: 33MiB is more than half of the memory (64MiB)"},
      {{"--memory", "4MiB", "--item-max", "3MiB"}, "--item-max: 3MiB is more than half of the memory (4MiB)"},
      {{"--threads", "0"}, "--threads: expected an integer from 1 to 1024, got 0"},
      {{"--growth-factor", "1"}, "--growth-factor: expected a number from 1.01 to 100, got 1"},
      {{"--growth-factor", "nan"}, "--growth-factor: expected a number, got \"nan\""},
      {{"--evict=maybe"}, "--evict: expected true or false, got \"maybe\""},
      {{"--unix-mode", "8"}, "--unix-mode: expected octal permissions from 0 to 777, got \"8\""},
      {{"--unix", ""}, "--unix: expected a string that is not empty, got \"\""},
      {{"--unix", std::string(108, 'x')}, "--unix: longer than the 107 bytes that a Unix socket's name may have"},
      {{"--control", std::string(108, 'x')}, "--control: longer than the 107 bytes that a Unix socket's name may have"},
      {{"--control", "@tandem"}, "--control: \"@tandem\" names no file, whose permissions would protect it"},
      {{"--control", "/x", "--unix", "/x"}, "--control: \"/x\" is the clients' Unix socket (unix)"},
      {{"--listen", "a,,b"}, "--listen: expected a string or a list of strings that are not empty, got \"a,,b\""},
      {{"--listen", "host:http"}, "--listen: invalid port number in \"host:http\""},
      {{"--port", "0", "--udp-port", "0"},
       "--port: 0, as udp-port is, and without a Unix socket (unix) there is nothing to listen on"},
      {{"--port", "0"}, "--port: 0, as udp-port is, and without a Unix socket (unix) there is nothing to listen on"},
      {{"-p"}, "serve: --port needs a value: NUMBER"},
      {{"--memory", "64"}, "--memory: expected a size from 4MiB to 128GiB, got 64B; did you mean 64MiB?"},
      {{"--memory", "2"}, "--memory: expected a size from 4MiB to 128GiB, got 2B"},
      {{"--memory", "2KiB"}, "--memory: expected a size from 4MiB to 128GiB, got 2KiB"},
      {{"--xdp", "eth0"}, "--xdp: udp-port must be given, as a number above 0"},
      {{"--xdp", "eth0", "--udp-port", "-1"}, "--xdp: udp-port must be given, as a number above 0"},
      {{"--xdp", "eth0", "--unix", "/x"}, "--xdp: there is no UDP beside a Unix socket"},
      {{"--metrics", "9150"}, "--metrics: expected ADDRESS:PORT such as 127.0.0.1:9150, got \"9150\""},
      {{"--preset", "mega-kv", "--gpu-cycle", "50", "--gpu-latency-target", "300"},
       "--gpu-latency-target: chooses the cycle, and gpu-cycle gives one: leave one of them out (gpu-cycle is 50)"},
      {{"--preset", "mega-kv", "--gpu", "off", "--gpu-latency-target", "300"},
       "--gpu-latency-target: is of use with preset mega-kv and a GPU alone (preset is mega-kv, gpu is off)"},
      {{"--gpu-latency-target", "300"},
       "--gpu-latency-target: is of use with preset mega-kv and a GPU alone (preset is auto, gpu is auto)"},
      {{"--gpu-calibration", "/x"},
       "--gpu-calibration: is of use with preset mega-kv and a GPU alone (preset is auto, gpu is auto)"},
      {{"--preset", "mega-kv", "--gpu-rate", "10"},
       "--gpu-rate: has no effect without a latency target (gpu-latency-target is 0)"},
      {{"--preset", "mirrored", "--gpu-batch-min", "4"},
       "--gpu-batch-min: is of use with preset auto and a GPU alone (preset is mirrored, gpu is auto)"},
      {{"--preset", "heterokv", "--gpu", "0"}, "--gpu: the preset uses no GPU (preset is heterokv)"},
      {{"--preset", "cpu", "--gpu-values", "1MiB"},
       "--gpu-values: needs a GPU, and an index on the host beside it (preset is cpu, gpu is auto)"},
      {{"--gpu-value-max", "64"},
       "--gpu-value-max: has no effect where a GPU has no copies of items (preset is auto, gpu is auto, gpu-values is "
       "0)"},
      {{"--preset", "mega-kv", "--gpu-steal"},
       "--gpu-steal: needs a GPU, and an index on the host beside it (preset is mega-kv, gpu is auto)"},
      {{"--arrange", "--no-ordered"},
       "--arrange: has no effect without keys in order (ordered is false, preset is auto, index is preset)"},
      {{"--preset", "memcachedgpu", "--ordered"},
       "--ordered: the index keeps no order (preset is memcachedgpu, index is preset)"},
      {{"--preset", "cpu", "--index", "slab_list", "--ordered"},
       "--ordered: the index keeps no order (preset is cpu, index is slab_list)"},
      {{"--index", "slab_list"},
       "--index: is of another kind than the preset's, which no GPU can follow (preset is auto, gpu is auto)"},
      {{"--seccomp", "--gpu", "0"},
       "--seccomp: a GPU's driver needs system calls that it refuses (preset is auto, gpu is 0)"},
      {{"--no-evict", "--eviction", "s3-fifo"}, "--eviction: has no effect where nothing is evicted (evict is false)"},
      {{"--index-power", "20", "--item-expected", "1KiB"},
       "--item-expected: has no effect beside index-power (index-power is 20)"},
      {{"--control-tcp"}, "--control-tcp: has no effect without a control socket (control is not given)"},
      {{"--unix-mode", "777"}, "--unix-mode: has no effect without a Unix socket (unix is not given)"},
      {{"--unix", "/x", "--tls", "--tls-cert", "/c"}, "--tls: there is no TLS on a Unix socket (unix is /x)"},
      {{"--tls-kernel", "--tls-ciphers", "X"},
       "--tls-ciphers: has no effect without TLS (tls is false, tls-cert is not given)\ntandem: "
       "--tls-kernel: has no effect without TLS (tls is false, tls-cert is not given)"},
      {{"--metrics-token-file", "/t"},
       "--metrics-token-file: has no effect without the monitoring endpoint (metrics is not given)"},
      {{"--no-watch", "--watch-client-buffer", "8"},
       "--watch-client-buffer: has no effect where nobody may watch (watch is false)"},
      {{"--gpu-value-max", "1MiB"}, "--gpu-value-max: expected a size from 32B to 256B, got 1MiB"},
      {{"--gpu-batch-min", "-1"}, "--gpu-batch-min: expected an integer from 0 to 1000000, got -1"},
      {{"--gpu-latency-target", "1000001"}, "--gpu-latency-target: expected an integer from 0 to 1000000, got 1000001"},
      {{"--gpu-get-share", "101"}, "--gpu-get-share: expected a number from 0 to 100, got 101"},
      {{"--prot", "11", "--xx"}, "serve: unknown option \"--prot\"; did you mean --port?"},
      {{"--memory-fle=/x"}, "serve: unknown option \"--memory-fle\"; did you mean --memory-file?"},
      {{"--port", "1", "--bogus", "2"}, "serve: unknown option \"--bogus\""},
      {{"--no-port"}, "serve: unknown option \"--no-port\""},
      {{"-q"}, "serve: unknown option \"-q\""},
      {{"first", "--bogus"}, "serve: unexpected argument \"first\""},
      {{"-m", "1"}, "--memory: expected a size from 4MiB to 128GiB, got 1MiB"},
      {{"-m", "200g"}, "--memory: expected a size from 4MiB to 128GiB, got 200GiB"},
      {{"-vvvv"}, "--verbose: expected an integer from 0 to 3, got 4"},
      {{"--config", "/nonexistent/tandem.toml"}, "/nonexistent/tandem.toml: No such file or directory"},
      {{"--config", "/"}, "/: Is a directory"},
  };
  for (const Refused& c : cases) {
    try {
      parse_serve(c.arguments);
      ADD_FAILURE() << "accepted: " << testing::PrintToString(c.arguments);
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), c.message);
      EXPECT_EQ(error.exit_code(), c.arguments.front() == "--config" ? EX_NOINPUT : EX_USAGE) << error.what();
    }
  }
  // The messages are CLI11's, which differ between its versions.
  for (const Arguments& arguments :
       std::vector<Arguments>{{"--port"}, {"-p"}, {"--config"}, {"--config", "a", "--config", "b"}}) {
    try {
      parse_serve(arguments);
      ADD_FAILURE() << "accepted: " << testing::PrintToString(arguments);
    } catch (const CommandError& error) {
      EXPECT_EQ(error.exit_code(), EX_USAGE) << error.what();
    }
  }
}

TEST(Serve, TakesWhatWouldHaveNoEffectAsADefaultOrTurnedOff) {
  const TemporaryFile file("preset = \"cpu\"\narrange = true\nordered = false\ngpu-values = 0\ngpu = \"auto\"\n");
  EXPECT_TRUE(parse_serve(Arguments{"--config", file.path()}).notices.empty());
  EXPECT_TRUE(parse_serve(Arguments{"--preset", "cpu", "--gpu", "off", "--no-arrange"}).notices.empty());
  EXPECT_TRUE(parse_serve(Arguments{"--preset", "heterokv", "--arrange"}).notices.empty());
}

TEST(Serve, WarnsOfWhatIsDoneInAnotherWay) {
  EXPECT_EQ(parse_serve(Arguments{"--preset", "memcachedgpu", "--gpu", "off"}).notices,
            std::vector<std::string>{
                "--gpu: the host does the work of the GPU that the preset asks for (preset is memcachedgpu)"});
  EXPECT_EQ(parse_serve(Arguments{"--unix", "/x", "--listen", "::1"}).notices,
            std::vector<std::string>{"--listen: has no effect beside a Unix socket (unix is /x)"});
}

// The message of each need names the options that decide it, and they exist.
TEST(Serve, NeedsNameOptions) {
  std::size_t needs = 0;
  for (const Option& option : all_options()) {
    for (const Need& need : option.needs) {
      if (need.is_met == nullptr) continue;
      ++needs;
      EXPECT_FALSE(need.why.empty()) << option.name;
      std::string_view names = need.decided_by;
      EXPECT_FALSE(names.empty()) << option.name;
      while (!names.empty()) {
        const std::size_t end = std::min(names.find(','), names.size());
        EXPECT_NE(find_option(names.substr(0, end)), nullptr) << option.name << ": " << names;
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
  }
  EXPECT_GT(needs, 30u);
}

TEST(Serve, HelpWins) {
  const Invocation result = parse_serve(Arguments{"--port", "x", "--help"});
  EXPECT_NE(result.output.find("--listen ADDRESS"), std::string::npos);
}

TEST(Serve, CommandLineOverFileOverDefault) {
  const TemporaryFile file(
      "port = 1000\nudp-port = 2000\nlisten = [\"192.0.2.1\", \"192.0.2.2\"]\nevict = false\nmemory = "
      "\"2GiB\"\nverbose "
      "= 1\n");
  const Settings settings =
      parse_serve(Arguments{"--udp-port", "3000", "--listen", "::1", "--evict", "--config", file.path(), "-vv"})
          .settings;
  EXPECT_EQ(value_of("port", settings), "1000");         // file
  EXPECT_EQ(value_of("memory", settings), "2GiB");       // file
  EXPECT_EQ(value_of("udp-port", settings), "3000");     // command line, before --config
  EXPECT_EQ(value_of("listen", settings), "::1");        // replaced, not added to
  EXPECT_EQ(value_of("evict", settings), "true");        // command line
  EXPECT_EQ(value_of("verbose", settings), "2");         // command line, after --config
  EXPECT_EQ(value_of("connections", settings), "1024");  // default
}

TEST(Serve, MistakesOfFileAndCommandLineTogetherNameBoth) {
  const TemporaryFile file("# big items\nitem-max = \"600MiB\"\n");
  try {
    parse_serve(Arguments{"--config", file.path()});
    FAIL();
  } catch (const CommandError& error) {
    EXPECT_EQ(error.what(), file.path() + ":2: item-max: 600MiB is more than half of the memory (1GiB)");
  }
  EXPECT_EQ(value_of("item-max", parse_serve(Arguments{"--config", file.path(), "--memory", "2GiB"}).settings),
            "600MiB");
}

TEST(ConfigFile, TakesEveryKind) {
  Settings settings = serve_defaults();
  std::vector<std::string> seen;
  apply_config(
      "listen = \"a, b\"\n"
      "port = -1\n"
      "unix-mode = 0o660\n"
      "idle-timeout = 90\n"
      "growth-factor = 2\n"
      "memory = 67108864\n"
      "item-max = \"512KiB\"\n"
      "cas = false\n"
      "user = \"nobody\"\n",
      "t.toml", settings, [&](const Option&, const std::string& where) { seen.push_back(where); });
  EXPECT_EQ(settings.server.listen, (std::vector<std::string>{"a", " b"}));
  EXPECT_EQ(settings.server.tcp_port, -1);
  EXPECT_EQ(settings.server.unix_mask, 0660u);
  EXPECT_EQ(settings.server.idle_timeout_s, 90u);
  EXPECT_DOUBLE_EQ(settings.engine.growth_factor, 2.0);
  EXPECT_EQ(settings.engine.memory_bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(settings.engine.item_bytes_max, std::uint64_t{512} << 10);
  EXPECT_FALSE(settings.engine.cas);
  EXPECT_EQ(settings.process.user, "nobody");
  ASSERT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen.back(), "t.toml:9: user");
}

TEST(ConfigFile, MistakesNameFileLineAndKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n\nprot = 1\n", "t.toml:3: unknown key \"prot\"; did you mean port? (`tandem options` lists them)"},
      {"config = \"x\"\n", "t.toml:1: unknown key \"config\" (`tandem options` lists them)"},
      {"[port]\nx = 1\n", "t.toml:1: port: expected an integer from -1 to 65535, got a table"},
      {"[server]\nport = 1\n", "t.toml:1: unknown key \"server\" (`tandem options` lists them)"},
      {"port = \"11211\"\n", "t.toml:1: port: expected an integer from -1 to 65535, got a string"},
      {"port = 65536\n", "t.toml:1: port: expected an integer from -1 to 65535, got 65536"},
      {"port = 1.0\n", "t.toml:1: port: expected an integer from -1 to 65535, got a number with a point"},
      {"port = true\n", "t.toml:1: port: expected an integer from -1 to 65535, got a boolean"},
      {"evict = 1\n", "t.toml:1: evict: expected true or false, got an integer"},
      {"evict = \"true\"\n", "t.toml:1: evict: expected true or false, got a string"},
      {"memory = \"lots\"\n",
       "t.toml:1: memory: expected a size in bytes, KiB, MiB, GiB or TiB such as 512MiB, got \"lots\""},
      {"memory = 64\n", "t.toml:1: memory: expected a size from 4MiB to 128GiB, got 64B; did you mean 64MiB?"},
      {"memory = -1\n", "t.toml:1: memory: expected a size from 4MiB to 128GiB, got -1"},
      {"memory = 1.5\n", "t.toml:1: memory: expected a size from 4MiB to 128GiB, got a number with a point"},
      {"growth-factor = nan\n", "t.toml:1: growth-factor: expected a number from 1.01 to 100, got nan"},
      {"unix-mode = 0o1777\n", "t.toml:1: unix-mode: expected octal permissions from 0 to 777, got 1023"},
      {"listen = []\n", "t.toml:1: listen: expected a string or a list of strings that are not empty, got an array"},
      {"listen = [\"a\", 1]\n",
       "t.toml:1: listen: expected a string or a list of strings that are not empty, got an integer"},
      {"user = \"\"\n", "t.toml:1: user: expected a string that is not empty, got \"\""},
      {"user = 1979-05-27\n", "t.toml:1: user: expected a string that is not empty, got a date or time"},
      {"threads = 1\nport = \"x\"\nbogus = 1\n", "t.toml:2: port: expected an integer from -1 to 65535, got a string"},
  };
  for (const auto& [text, message] : cases) {
    Settings settings = serve_defaults();
    try {
      apply_config(text, "t.toml", settings, [](const Option&, const std::string&) {});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), message);
      EXPECT_EQ(error.exit_code(), EX_CONFIG);
    }
  }
}

TEST(ConfigFile, SyntaxErrorsNameTheLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"port = 1\nport = 2\n", "t.toml:2: "},
      {"\nport\n", "t.toml:2: "},
      {"port = 1\n\nlisten = [", "t.toml:3: "},
      {"port = \xff\n", "t.toml:1: "},
  };
  for (const auto& [text, begin] : cases) {
    Settings settings = serve_defaults();
    try {
      apply_config(text, "t.toml", settings, [](const Option&, const std::string&) {});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const CommandError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(begin)) << error.what();
      EXPECT_EQ(error.exit_code(), EX_CONFIG);
    }
  }
}

// Input for which toml++ 3.3 asserts instead of reporting an error.
TEST(ConfigFile, BadTableHeadersAreErrors) {
  for (const std::string_view text :
       {std::string_view("[!]\n"), std::string_view("[\0", 2), std::string_view("[[=]]")}) {
    Settings settings = serve_defaults();
    try {
      apply_config(text, "t.toml", settings, [](const Option&, const std::string&) {});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const CommandError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("t.toml:")) << error.what();
      EXPECT_EQ(error.exit_code(), EX_CONFIG);
    }
  }
}

TEST(ConfigFile, OtherCharactersThanAsciiAreForCommentsAndEscapes) {
  Settings settings = serve_defaults();
  const auto apply = [&](std::string_view text) {
    apply_config(text, "t.toml", settings, [](const Option&, const std::string&) {});
  };
  apply("# gr\u00f6\u00dfe # \"\nuser = 'a#b' # \u00e9\nunix = \"/\\u00e9\\\"#\" # '\u00e9\nport = 1 # \u00e9");
  EXPECT_EQ(settings.process.user, "a#b");
  EXPECT_EQ(settings.server.unix_path, "/\u00e9\"#");
  EXPECT_EQ(settings.server.tcp_port, 1);
  const std::string ascii = "only ASCII outside of comments; texts take other characters as \\uXXXX";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\u00e9 = 1\n", "t.toml:1: " + ascii},
      {"port = 1 \u00a0\n", "t.toml:1: " + ascii},
      {"# \u00e9\n\nuser = \"\u00e9\"\n", "t.toml:3: " + ascii},
      {"user = '\\' # '\nunix = '\u00e9'\n", "t.toml:2: " + ascii},
      {"user = \"\\\"#\u00e9\"\n", "t.toml:1: " + ascii},
      {"port = 1\nuser = \"\"\"x\"\"\"\n", "t.toml:2: a text over several lines; there is no use for one here"},
      {"user = \'\'\'x\'\'\'\n", "t.toml:1: a text over several lines; there is no use for one here"},
  };
  for (const auto& [text, message] : cases) {
    try {
      apply(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), message);
    }
  }
}

TEST(ConfigFile, HasASizeLimit) {
  const TemporaryFile file("#" + std::string((1 << 20), 'x'));
  Settings settings = serve_defaults();
  EXPECT_THROW(apply_config_file(file.path(), settings, [](const Option&, const std::string&) {}), CommandError);
}

}  // namespace
}  // namespace tandem::cli
