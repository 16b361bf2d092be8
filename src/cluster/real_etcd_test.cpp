// The model of etcd beside a real etcd-server: the same random calls, and the same answers to the byte, but for the
// numbers of leases. And the registry's own HTTP, beside the real one.
#include <curl/curl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "cluster/etcd_model_fixture.hpp"
#include "cluster/etcd_registry.hpp"

namespace tandem::cluster {
namespace {

using EtcdJson = nlohmann::json;

constexpr Time etcd_patience{60'000};  // ends what would hang

unsigned free_port_of_test() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  close(fd);
  return ntohs(address.sin_port);
}

std::size_t append_to(const char* bytes, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(bytes, size * count);
  return size * count;
}

class RealEtcd : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tandem-etcd-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    url_ = "http://127.0.0.1:" + std::to_string(free_port_of_test());
    const std::string peer = "http://127.0.0.1:" + std::to_string(free_port_of_test());
    const std::string folder = folder_.string(), initial = "default=" + peer;
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(126);
      execlp("etcd", "etcd", "--data-dir", folder.c_str(), "--listen-client-urls", url_.c_str(),
             "--advertise-client-urls", url_.c_str(), "--listen-peer-urls", peer.c_str(),
             "--initial-advertise-peer-urls", peer.c_str(), "--initial-cluster", initial.c_str(), nullptr);
      _exit(127);
    }
    ASSERT_GT(child_, 0);
    const auto end = std::chrono::steady_clock::now() + etcd_patience;
    while (post("/v3/kv/range", R"({"key":"YQ=="})").first != 200) {
      ASSERT_EQ(waitpid(child_, nullptr, WNOHANG), 0) << "etcd (Debian's etcd-server) does not run";
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(Time{20});
    }
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  // limit: of a watch, which does not end.
  std::pair<long, std::string> post(const std::string& path, const std::string& body, Time limit = etcd_patience) {
    std::string answer;
    long status = 0;
    CURL* const easy = curl_easy_init();
    const std::string url = url_ + path;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &append_to);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
    curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    return {status, answer};
  }

  // Without what is each etcd's own, and with the model's numbers of leases.
  EtcdJson plain(const std::string& body) {
    std::string text = body;
    for (const auto& [real, ours] : leases_) {
      for (std::size_t at = text.find(real); at != std::string::npos; at = text.find(real))
        text.replace(at, real.size(), ours);
    }
    EtcdJson json = EtcdJson::parse(text);
    EtcdJson& holder = json.contains("result") ? json["result"] : json;
    if (holder.contains("header")) holder["header"] = {{"revision", holder["header"].value("revision", "")}};
    return json;
  }
  void expect_same(const GatewayRequest& request) {
    GatewayRequest real = request;
    for (const auto& [theirs, ours] : leases_) {
      const std::size_t at = real.body.find('"' + ours + '"');
      if (at != std::string::npos) real.body.replace(at + 1, ours.size(), theirs);
    }
    const auto [status, body] = post(real.path, real.body);
    const EtcdModel::Answer answer = model_.answer(request.path, request.body, Time{0});
    if (request.path == "/v3/lease/grant")
      leases_[EtcdJson::parse(body).at("ID")] = EtcdJson::parse(answer.body).at("ID").get<std::string>();
    ASSERT_EQ(status, answer.status) << request.path << request.body << body;
    ASSERT_EQ(plain(body), plain(answer.body)) << request.path << request.body;
  }
  // All that a watch tells from the first revision on, without the answers around it.
  EtcdJson events_of(const std::string& lines) {
    EtcdJson events = EtcdJson::array();
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      EtcdJson result = plain(lines.substr(at, end - at)).at("result");
      at = end + 1;
      for (const EtcdJson& event : result.value("events", EtcdJson::array())) events.push_back(event);
      result.erase("events");
      result.erase("header");
      if (!result.empty()) events.push_back(result);
    }
    return events;
  }

  std::filesystem::path folder_;
  std::string url_;
  pid_t child_ = 0;
  EtcdModel model_;
  std::map<std::string, std::string> leases_;  // the real one's numbers to the model's
  const std::string prefix_ = key_prefix("f");
};

TEST_F(RealEtcd, AnswersAsTheModel) {
  std::mt19937_64 random(7);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  std::vector<std::int64_t> leases{1};  // which nobody has
  const auto lease = [&] { return leases[draw(leases.size())]; };
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    RegistryRequest request;
    switch (draw(7)) {
      case 0:
        request = {.call = RegistryCall::grant, .ttl = std::chrono::seconds(1000 + draw(9))};
        break;
      case 1:
        request = {.call = RegistryCall::keep_alive, .lease = lease()};
        break;
      case 2:
        request = {.call = RegistryCall::revoke, .lease = lease()};
        break;
      case 3:
        request = {.call = RegistryCall::read};
        break;
      default: {
        const Node node{std::string(1, static_cast<char>('a' + draw(3))), "192.0.2.1", 1};
        request = {
            .call = RegistryCall::put_record, .lease = lease(), .record = {node, MemberState::serving, "b", draw(9)}};
        request.revision = model_.modified(prefix_ + "members/" + node.name());
        if (draw(4) == 0) request.revision -= static_cast<std::int64_t>(draw(2));
        if (draw(4) != 0) break;
        request = {.call = RegistryCall::publish, .config = {draw(9) + 1, {{node}}}};
        request.revision = draw(3) == 0 ? 0 : model_.modified(prefix_ + "config");
        break;
      }
    }
    expect_same(gateway_request(request, prefix_));
    if (request.call != RegistryCall::grant) continue;
    leases.push_back(std::stoll(leases_.rbegin()->second));
    for (const auto& [theirs, ours] : leases_) leases.back() = std::max<std::int64_t>(leases.back(), std::stoll(ours));
  }
  ASSERT_FALSE(HasFatalFailure());
  for (const bool compacted : {false, true}) {
    if (compacted) {
      ASSERT_EQ(post("/v3/kv/compaction", R"({"revision":")" + std::to_string(model_.revision()) + "\"}").first, 200);
      model_.compact(model_.revision());
    }
    const GatewayRequest watch = gateway_request({.call = RegistryCall::watch, .revision = 1}, prefix_);
    const EtcdJson wanted = events_of(model_.watch(watch.body));
    EtcdJson found;
    const auto end = std::chrono::steady_clock::now() + etcd_patience;
    for (Time limit{200}; found != wanted && std::chrono::steady_clock::now() < end; limit *= 2)
      found = events_of(post(watch.path, watch.body, limit).second);
    EXPECT_EQ(found, wanted);
  }
}

TEST_F(RealEtcd, AnswersTheRegistryOnceALeaseHasEnded) {
  EtcdRegistry registry({.endpoints = {"http://127.0.0.1:1", url_}, .fleet = "f"});
  std::vector<RegistryReply> changes;
  const auto next = [&](RegistryCall call) {
    const auto end = std::chrono::steady_clock::now() + etcd_patience;
    while (std::chrono::steady_clock::now() < end) {
      std::vector<Registry::Wake> none;
      std::optional<RegistryReply> found;
      for (RegistryReply& reply : registry.wait(none, Time{100})) {
        if (reply.call == RegistryCall::watch) changes.push_back(reply);
        if (reply.call == call) found = std::move(reply);
      }
      if (found) return *found;
    }
    return RegistryReply{.problem = "hangs"};
  };
  const auto ask = [&](RegistryRequest request) {
    const RegistryCall call = request.call;
    registry.send(std::move(request));
    return next(call);
  };
  // Nobody is at the first endpoint.
  EXPECT_EQ(ask({.call = RegistryCall::read}).outcome, RegistryOutcome::failed);
  EXPECT_EQ(ask({.call = RegistryCall::read}).outcome, RegistryOutcome::done);
  const RegistryReply granted = ask({.call = RegistryCall::grant, .ttl = Time{2'000}});
  ASSERT_EQ(granted.outcome, RegistryOutcome::done) << granted.problem;
  const MemberRecord record{{"a", "192.0.2.1", 1}, MemberState::serving, "b", 0};
  const RegistryReply written = ask({.call = RegistryCall::put_record, .lease = granted.lease, .record = record});
  ASSERT_EQ(written.outcome, RegistryOutcome::done) << written.problem;
  EXPECT_EQ(ask({.call = RegistryCall::read}).records, std::vector<MemberRecord>{record});
  // Nobody renews it: the watch tells that the record has gone.
  registry.send({.call = RegistryCall::watch, .revision = written.revision});
  const RegistryReply change = changes.empty() ? next(RegistryCall::watch) : changes.front();
  EXPECT_EQ(change.outcome, RegistryOutcome::done);
  EXPECT_TRUE(ask({.call = RegistryCall::read}).records.empty());
  EXPECT_EQ(ask({.call = RegistryCall::keep_alive, .lease = granted.lease}).outcome, RegistryOutcome::lease_lost);
  EXPECT_EQ(ask({.call = RegistryCall::put_record, .lease = granted.lease, .record = record}).outcome,
            RegistryOutcome::lease_lost);
}

}  // namespace
}  // namespace tandem::cluster
