#include "cluster/file_registry.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

namespace tandem::cluster {

void FileRegistry::send(RegistryRequest request) {
  if (request.call == RegistryCall::read) replies_.push_back(read());
}

RegistryReply FileRegistry::read() {
  RegistryReply reply{.call = RegistryCall::read};
  errno = 0;
  std::ifstream in(path_, std::ios::binary);
  std::array<char, document_bytes_max + 1> bytes{};
  in.read(bytes.data(), bytes.size());
  const std::string text(bytes.data(), static_cast<std::size_t>(in.gcount()));
  if (text.empty() && errno != 0) {
    reply.problem = path_ + ": " + std::generic_category().message(errno);
    return reply;
  }
  reply.config = text.size() > document_bytes_max ? std::nullopt : read_document(text);
  if (!reply.config) {
    reply.problem = path_ + ": no list of two lines, the version and the nodes, that clients read";
    return reply;
  }
  if (revision_ == 0 || text != text_) ++revision_;
  text_ = text;
  reply.outcome = RegistryOutcome::done;
  reply.revision = reply.config_revision = revision_;
  return reply;
}

std::vector<RegistryReply> FileRegistry::wait(std::vector<Wake>& wake, Time limit) {
  wait_for(wake, replies_.empty() ? limit : Time{0});
  return std::exchange(replies_, {});
}

void wait_for(std::vector<Registry::Wake>& wake, Time limit) {
  std::vector<pollfd> fds;
  for (const Registry::Wake& w : wake)
    fds.push_back({w.fd, static_cast<short>((w.reads ? POLLIN : 0) | (w.writes ? POLLOUT : 0)), 0});
  ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(limit.count(), 0, 60'000)));
  for (std::size_t i = 0; i < wake.size(); ++i) {
    wake[i].reads = (fds[i].revents & ~POLLOUT) != 0;
    wake[i].writes = (fds[i].revents & POLLOUT) != 0;
  }
}

}  // namespace tandem::cluster
