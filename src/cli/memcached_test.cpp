#include <gtest/gtest.h>
#include <sysexits.h>

#include <algorithm>

#include "cli/accepted_arguments.hpp"
#include "cli/invocation.hpp"

namespace tandem::cli {
namespace {

TEST(Memcached, TakesOptions) {
  const std::vector<Accepted> cases = {
      {{}, {{"listen", "*"}, {"port", "11211"}, {"udp-port", "0"}, {"memory", "64MiB"}, {"threads", "4"}}},
      {{"-p", "1234"}, {{"port", "1234"}, {"udp-port", "0"}}},
      {{"-p1234"}, {{"port", "1234"}}},
      {{"--port=1234"}, {{"port", "1234"}}},
      {{"--port", "1234"}, {{"port", "1234"}}},
      {{"--por", "1234"}, {{"port", "1234"}}},
      {{"-U", "1234"}, {{"port", "1234"}, {"udp-port", "1234"}}},
      {{"-U", "1234", "-p", "5"}, {{"port", "5"}, {"udp-port", "1234"}}},
      {{"-U", "0"}, {{"port", "11211"}, {"udp-port", "0"}}},
      {{"-p", "-1"}, {{"port", "-1"}}},
      {{"-m1024"}, {{"memory", "1GiB"}}},
      {{"-m", "1024"}, {{"memory", "1GiB"}}},
      {{"--memory-limit=100"}, {{"memory", "100MiB"}}},
      {{"-I", "2m"}, {{"item-max", "2MiB"}}},
      {{"-I", "512k"}, {{"item-max", "512KiB"}}},
      {{"-I2M"}, {{"item-max", "2MiB"}}},
      {{"-I", "4096"}, {{"item-max", "4KiB"}}},
      {{"-MCF"}, {{"evict", "false"}, {"cas", "false"}, {"flush", "false"}}},
      {{"-kdrvvP", "/run/m.pid"},
       {{"lock-memory", "true"},
        {"daemon", "true"},
        {"core-files", "true"},
        {"verbose", "2"},
        {"pid-file", "/run/m.pid"}}},
      {{"-vvv", "-v"}, {{"verbose", "3"}}},
      {{"--verbose", "--verbose"}, {{"verbose", "2"}}},
      {{"-l", "127.0.0.1,::1"}, {{"listen", "127.0.0.1,::1"}}},
      {{"-l", "127.0.0.1:1", "-l", "[::1]:2;localhost"}, {{"listen", "127.0.0.1:1,[::1]:2,localhost"}}},
      {{"-Z", "-l", "[::1]:2,notls:localhost:7"}, {{"tls", "true"}, {"listen", "[::1]:2,notls:localhost:7"}}},
      {{"-o", "ssl_chain_cert=/c.pem,ssl_key=/k.pem,ssl_keyformat=2,ssl_ca_cert=/ca=1.pem", "--enable-ssl"},
       {{"tls", "true"},
        {"tls-cert", "/c.pem"},
        {"tls-key", "/k.pem"},
        {"tls-key-format", "der"},
        {"tls-ca", "/ca=1.pem"}}},
      {{"-Zo", "ssl_verify_mode=3,ssl_min_version=1,ssl_ciphers=HIGH:!aNULL,ssl_session_cache,ssl_kernel_tls"},
       {{"tls-verify", "once"},
        {"tls-min-version", "1.1"},
        {"tls-ciphers", "HIGH:!aNULL"},
        {"tls-session-cache", "true"},
        {"tls-kernel", "true"}}},
      {{"-s", "/tmp/m.sock", "-a", "0770"}, {{"unix", "/tmp/m.sock"}, {"unix-mode", "770"}}},
      {{"-n", "48", "-f", "1.25"}, {{"slot-min", "64B"}, {"growth-factor", "1.25"}}},
      {{"-f", "1.0001"}, {{"growth-factor", "1.01"}}},
      {{"-c", "100000", "-t", "8", "-R", "1024", "-b", "4096"},
       {{"connections", "100000"}, {"threads", "8"}, {"requests-per-event", "1024"}, {"backlog", "4096"}}},
      {{"-o", "idle_timeout=30,no_maxconns_fast"}, {{"idle-timeout", "30s"}, {"refuse-over-limit", "false"}}},
      {{"-o", "no_maxconns_fast", "-o", "maxconns_fast"}, {{"refuse-over-limit", "true"}}},
      {{"-o", ""}, {{"port", "11211"}}},
      {{"-o", "drop_privileges"}, {{"seccomp", "true"}}},
      {{"-o", "no_drop_privileges"}, {{"seccomp", "false"}}},
      {{"-u", "nobody", "stray", "-p", "7"}, {{"user", "nobody"}, {"port", "7"}}},
      {{"-B", "ascii"}, {{"protocol", "ascii"}}},
      {{"-B", "binary"}, {{"protocol", "binary"}}},
      {{"-B", "auto"}, {{"protocol", "auto"}}},
      {{"-Y", "/etc/users"}, {{"auth-file", "/etc/users"}, {"protocol", "auto"}}},
      {{"-Y", "/etc/users", "-B", "ascii"}, {{"auth-file", "/etc/users"}}},
      {{"-p", "1", "--", "-p", "2"}, {{"port", "1"}}},
  };
  for (const Accepted& c : cases) {
    const Invocation result = parse_memcached(c.arguments);
    EXPECT_TRUE(result.output.empty());
    EXPECT_EQ(result.notices, std::vector<std::string>{}) << testing::PrintToString(c.arguments);
    for (const auto& [name, value] : c.values) {
      EXPECT_EQ(value_of(name, result.settings), value) << name << testing::PrintToString(c.arguments);
    }
  }
}

struct RefusedLikeMemcached {
  Arguments arguments;
  int exit_code;
  std::string message;
};

TEST(Memcached, RefusesAsMemcachedDoes) {
  const std::vector<RefusedLikeMemcached> cases = {
      {{"-c", "0"}, 1, "Maximum connections must be greater than 0"},
      {{"-c", "-5"}, 1, "Maximum connections must be greater than 0"},
      {{"-t", "0"}, 1, "Number of threads must be greater than 0"},
      {{"-R", "0"}, 1, "Number of requests per event must be greater than 0"},
      {{"-f", "1"}, 1, "Factor must be greater than 1"},
      {{"-f", "x"}, 1, "Factor must be greater than 1"},
      {{"-n", "0"}, 1, "Chunk size must be greater than 0"},
      {{"-D", ""}, 1, "No delimiter specified"},
      {{"-p", "65536"}, EX_USAGE, "ERROR: Invalid port number 65536."},
      {{"-I", "1"}, EX_USAGE, "Item max size cannot be less than 1024 bytes."},
      {{"-I", "-2m"}, EX_USAGE, "Item max size cannot be less than 1024 bytes."},
      {{"-I", "33m"}, EX_USAGE, "Cannot set item size limit higher than 1/2 of memory max."},
      {{"-m", "0"}, EX_USAGE, "Cannot set item size limit higher than 1/2 of memory max."},
      {{"-m", "1"}, EX_USAGE, "Cannot set item size limit higher than 1/2 of memory max."},
      {{"-m", "4096", "-I", "1025m"}, EX_USAGE, "Cannot set item size limit higher than a gigabyte."},
      {{"-B", "foo"}, EX_USAGE, "Invalid value for binding protocol: foo\n -- should be one of auto, binary, or ascii"},
      {{"-o", "idle_timeout"}, 1, "Missing numeric argument for idle_timeout"},
      {{"-o", "idle_timeout=-5"}, EX_USAGE, "-o idle_timeout: expected a time in seconds or with s, m, h or d, got -5"},
      {{"-o", "ssl_chain_cert"}, 1, "Missing ssl_chain_cert argument"},
      {{"-o", "ssl_verify_mode"}, 1, "Missing ssl_verify_mode argument"},
      {{"-o", "ssl_verify_mode=4"}, 1, "Invalid ssl_verify_mode. Use help to see valid options."},
      {{"-o", "ssl_verify_mode=-1"}, 1, "Invalid ssl_verify_mode. Use help to see valid options."},
      {{"-o", "ssl_min_version=tlsv1.2"}, 1, "could not parse argument to ssl_min_version"},
      {{"-o", "ssl_min_version=4"}, 1, "Invalid ssl_min_version. Use help to see valid options."},
      {{"-o", "ssl_keyformat="}, 1, "could not parse argument to ssl_keyformat"},
      {{"-Z", "-p", "0", "-U", "11211"}, EX_USAGE, "ERROR: You cannot enable SSL without a TCP port."},
      {{"-l", "notls:localhost"},
       EX_OSERR,
       "failed to listen on one of interface(s) notls:localhost: 'notls' option is valid only when SSL is enabled"},
      {{"-Q"}, 1, "Illegal argument \"?\""},
      {{"-p"}, 1, "Illegal argument \"?\""},
      {{"--bogus"}, 1, "Illegal argument \"?\""},
      {{"--ver"}, 1, "Illegal argument \"?\""},
      // accepted by memcached, but not by Tandem
      {{"-S", "-B", "ascii"}, EX_USAGE, "ERROR: You cannot allow the ASCII protocol while using SASL."},
      {{"-S", "-B", "auto"}, EX_USAGE, "ERROR: You cannot allow the ASCII protocol while using SASL."},
      {{"-S", "-U", "1"}, EX_USAGE, "ERROR: Cannot enable UDP while using binary SASL authentication."},
      {{"-S"}, EX_USAGE, "-S: MEMCACHED_SASL_PWDB must name a file with lines user:password"},
      {{"-Y", "/x", "-B", "binary"},
       EX_USAGE,
       "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens."},
      {{"-Y", "/x", "-U", "1"}, EX_USAGE, "Cannot use UDP with ascii authentication enabled (-U 0 to disable)"},
      {{"-o", "xdp=eth0"}, EX_USAGE, "-o xdp: udp-port must be given, as a number above 0"},
      {{"-o", "sock_cookie_id=5"}, EX_USAGE, "-o sock_cookie_id (marked sockets for firewalls) is not supported yet"},
      {{"-o", "ext_path=/mnt/e:64G"}, EX_USAGE, "-o ext_path (values on flash: extstore) is not supported yet"},
      {{"-o", "ext_threads=4,ext_path=/e:1G"},
       EX_USAGE,
       "-o ext_path (values on flash: extstore) is not supported yet"},
      {{"-o", "proxy_config=/etc/proxy.lua"},
       EX_USAGE,
       "-o proxy_config (a proxy before other servers) is not supported yet"},
      {{"-m", "1000000"}, EX_USAGE, "-m: expected a size from 4MiB to 128GiB, got 1000000MiB"},
      {{"-l", "localhost:http"},
       EX_OSERR,
       "failed to listen on one of interface(s) localhost:http: invalid port number in \"localhost:http\""},
  };
  for (const RefusedLikeMemcached& c : cases) {
    try {
      parse_memcached(c.arguments);
      ADD_FAILURE() << "accepted: " << testing::PrintToString(c.arguments);
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), c.message);
      EXPECT_EQ(error.exit_code(), c.exit_code) << error.what();
    }
  }
}

TEST(Memcached, SaslFileComesFromTheEnvironment) {
  ASSERT_EQ(setenv("MEMCACHED_SASL_PWDB", "/etc/pwdb", 1), 0);
  const Settings with = parse_memcached(Arguments{"-S"}).settings, without = parse_memcached(Arguments{}).settings;
  unsetenv("MEMCACHED_SASL_PWDB");
  EXPECT_TRUE(with.server.sasl);
  EXPECT_EQ(with.server.sasl_file, "/etc/pwdb");
  EXPECT_EQ(without.server.sasl_file, "");
}

TEST(Memcached, ReportsWhatItIgnores) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"-o", "relaxed_privileges"}, "-o \"relaxed_privileges\" has no effect, ignored"},
      {{"-o", "tail_repair_time=10"}, "-o \"tail_repair_time=10\" has no effect, ignored"},
      {{"-p", "12x"}, "-p \"12x\" is not a number, taken as 12"},
      {{"-m", "1024m"}, "-m \"1024m\" is not a number, taken as 1024"},
      {{"-f", "1.5x"}, "-f \"1.5x\" is not a number, taken as 1.5"},
      {{"-m", "2"}, "-m is raised to 4MiB, the least"},
      {{"-o", "ssl_chain_cert=/c.pem"}, "-o ssl_chain_cert: has no effect without TLS (tls is false)"},
      {{"-a", "777"}, "-a: has no effect without a Unix socket (unix is not given)"},
      {{"-s", "/x", "-l", "::1"}, "-l: has no effect beside a Unix socket (unix is /x)"},
      {{"-o", "preset=4,gpu=off"},
       "-o gpu: the host does the work of the GPU that the preset asks for (preset is memcachedgpu)"},
      {{"-o", "preset=0,gpu_values=1m"},
       "-o gpu_values: needs a GPU, and an index on the host beside it (preset is cpu, gpu is auto)"},
  };
  for (const auto& [arguments, notice] : cases) {
    const Invocation result = parse_memcached(arguments);
    EXPECT_EQ(result.notices, std::vector<std::string>{notice});
  }
  EXPECT_EQ(parse_memcached(Arguments{"-XWo", "slab_automove,,hot_lru_pct=1,maxconns_fast"}).notices.size(), 2u);
}

// A slip would else leave out what protects the server.
TEST(Memcached, RefusesSuboptionsThatMemcachedDoesNotKnow) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"foo=1", "Illegal suboption \"foo=1\""},
      {"ssl_verify_mod=2", "Illegal suboption \"ssl_verify_mod=2\"; did you mean ssl_verify_mode?"},
      {"drop_priviliges", "Illegal suboption \"drop_priviliges\"; did you mean drop_privileges?"},
      {"idle_timout=5", "Illegal suboption \"idle_timout=5\"; did you mean idle_timeout?"},
      {"no_maxconn_fast", "Illegal suboption \"no_maxconn_fast\"; did you mean no_maxconns_fast?"},
      {"no_idle_timeout", "Illegal suboption \"no_idle_timeout\""},
      {"maxconns_fast,chunked_items", "Illegal suboption \"chunked_items\""},
  };
  for (const auto& [text, message] : cases) {
    try {
      parse_memcached(Arguments{"-o", text});
      ADD_FAILURE() << "accepted: " << text;
    } catch (const CommandError& error) {
      EXPECT_EQ(error.what(), message);
      EXPECT_EQ(error.exit_code(), 1);
    }
  }
}

TEST(Memcached, NeedsAnAddress) {
  for (const std::string none : {"", ",", ";,"}) {
    try {
      parse_memcached(Arguments{"-l", none});
      ADD_FAILURE() << "accepted: " << none;
    } catch (const CommandError& error) {
      EXPECT_STREQ(error.what(), "-l: no address");
      EXPECT_EQ(error.exit_code(), EX_USAGE);
    }
  }
}

TEST(Memcached, TakesItsOwnOptionsByTheirNames) {
  EXPECT_EQ(parse_memcached(Arguments{"-o", "log_format=json"}).settings.server.log_format, 1u);
  EXPECT_THROW(parse_memcached(Arguments{"-o", "log_format=xml"}), CommandError);
  EXPECT_EQ(parse_memcached(Arguments{"-o", "gpu=sim,gpu_values=1m,gpu_value_max=256B"}).settings.gpu.value_max_bytes,
            256u);
}

// memcached's suite and clients search the help for these names to learn what the server can do.
TEST(Memcached, HelpNamesNothingThatIsMissing) {
  const std::string help = parse_memcached(Arguments{"-h"}).output;
  for (const std::string_view name : {"ext_path", "proxy_config", "sock_cookie_id"})
    EXPECT_EQ(help.find(name), std::string::npos) << name;
  EXPECT_NE(help.find("Not supported yet, an error"), std::string::npos);
}

TEST(Memcached, PrintsInsteadOfServing) {
  EXPECT_TRUE(parse_memcached(Arguments{"-h"}).output.starts_with("memcached 1.6.18 (tandem "));
  EXPECT_TRUE(parse_memcached(Arguments{"-V"}).output.starts_with("memcached 1.6.18 (tandem "));
  EXPECT_TRUE(parse_memcached(Arguments{"--license"}).output.starts_with("memcached 1.6.18 (tandem "));
  EXPECT_FALSE(parse_memcached(Arguments{"-V", "-c", "0"}).output.empty()) << "-V comes first";
  EXPECT_THROW(parse_memcached(Arguments{"-c", "0", "-V"}), CommandError) << "-c comes first";
}

}  // namespace
}  // namespace tandem::cli
