// What one worker's event loop counts.
//
// Thread safety: the worker's thread adds, any thread reads.
#pragma once
#include <cstdint>

#include "observe/counters.hpp"

namespace tandem::net {

// X(name)
#define TD_NET_COUNTERS(X)                                                                              \
  X(passes)               /* epoll_wait calls that found something */                                   \
  X(bytes_read)           /* from sockets */                                                            \
  X(bytes_written)        /* to sockets */                                                              \
  X(cmd_meta)             /* requests of the meta protocol */                                           \
  X(range_reads)          /* mr: requests executed */                                                   \
  X(range_items)          /* mr: items found, as replies count them */                                  \
  X(range_removes)        /* mx: requests executed */                                                   \
  X(range_removed)        /* mx: items removed */                                                       \
  X(device_streams)       /* inputs that were answered whole by one run of a device's answers */        \
  X(conn_yields)          /* a connection with more input has used its share of a pass */               \
  X(idle_kicks)           /* closed for idleness */                                                     \
  X(blocked)              /* a client's socket was full */                                              \
  X(closed_for_room)      /* closed because unread output passed a limit */                             \
  X(read_buf_oom)         /* of these: no memory, or no share of the limit, for input that is kept */   \
  X(response_obj_oom)     /* of these: the same for replies */                                          \
  X(udp_requests)         /* datagrams received */                                                      \
  X(udp_requests_dropped) /* of these: no frame, several datagrams, more requests than a batch holds */ \
  X(udp_replies_dropped)  /* longer than udp_reply_bytes_max, or the socket was full */                 \
  X(xdp_frames)           /* given to AF_XDP sockets */                                                 \
  X(xdp_wrong_frames)     /* of these: no UDP request of one machine by its headers */                  \
  X(xdp_wrong_sums)       /* of these: a checksum of IPv4 or UDP is wrong */                            \
  X(ssl_handshake_errors) /* connections that ended before their TLS handshake did */                   \
  X(ssl_proto_errors)     /* established ones that ended because of what the client sent */             \
  X(ssl_new_sessions)     /* that a client may resume */

struct NetCounters {
#define TD_X(name) Counter name;
  TD_NET_COUNTERS(TD_X)
#undef TD_X
};

// The same as plain numbers: a sum over workers.
struct NetTotals {
#define TD_X(name) std::uint64_t name = 0;
  TD_NET_COUNTERS(TD_X)
#undef TD_X
  void add(const NetCounters& c) noexcept {
#define TD_X(name) name += c.name.get();
    TD_NET_COUNTERS(TD_X)
#undef TD_X
  }
  void subtract(const NetTotals& t) noexcept {
#define TD_X(name) name -= t.name;
    TD_NET_COUNTERS(TD_X)
#undef TD_X
  }
};

}  // namespace tandem::net
