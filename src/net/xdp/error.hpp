// Why an interface cannot be used for AF_XDP.
#pragma once
#include <stdexcept>

namespace tandem::net {

// The text says what would help.
class XdpError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tandem::net
