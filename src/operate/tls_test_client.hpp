// A client that speaks TLS. OpenSSL is kept off its socket, so that tests choose how many bytes go in a packet and can
// send other bytes.
#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>

#include <string>
#include <string_view>

#include "net/tls_test_files.hpp"
#include "operate/server_test_client.hpp"

namespace tandem::net::test {

struct TlsClientOptions {
  int version = 0;                     // TLS1_2_VERSION, ...; 0: any
  const Identity* identity = nullptr;  // the client's certificate
  std::size_t piece_bytes = 0;         // at most so many bytes a packet; 0: as they come
  int receive_buffer_bytes = 0;
  SSL_SESSION* resume = nullptr;
  bool shakes_hands = true;
};

class TlsClient : public Client {
 public:
  using Options = TlsClientOptions;
  explicit TlsClient(int port, const Options& options = {}) : Client(port, options.receive_buffer_bytes), o_(options) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(context_.get(), 0);  // so that it offers what a server must refuse
    if (o_.version != 0) {
      SSL_CTX_set_min_proto_version(context_.get(), o_.version);
      SSL_CTX_set_max_proto_version(context_.get(), o_.version);
    }
    if (o_.identity != nullptr) {
      SSL_CTX_use_certificate(context_.get(), o_.identity->certificate.get());
      SSL_CTX_use_PrivateKey(context_.get(), o_.identity->key.get());
    }
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(ssl_.get(), in_, out_);
    if (o_.resume != nullptr) SSL_set_session(ssl_.get(), o_.resume);
    SSL_set_connect_state(ssl_.get());
    if (o_.shakes_hands && !shake_hands()) throw std::runtime_error("TLS handshake: " + take_openssl_error());
  }

  SSL* ssl() const { return ssl_.get(); }
  // False: the server did not want it.
  bool shake_hands() {
    while (!handshake_step()) {
      if (is_over_ || !flush() || !receive_raw()) return false;
    }
    return flush();
  }
  // Does what can be done without the server. True: this side is finished. What is to be sent stays here.
  bool handshake_step() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    is_over_ = result != 1 && SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ;
    return result == 1;
  }
  // What waits to be sent.
  std::string take_raw() {
    std::string bytes(BIO_ctrl_pending(out_), '\0');
    if (!bytes.empty()) BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  // Takes what the server sent, for OpenSSL to look at later. False: the end of the stream.
  bool receive_raw() {
    pollfd p{fd(), POLLIN, 0};
    if (poll(&p, 1, patience_ms) != 1) throw std::runtime_error("the server says nothing");
    char chunk[64 * 1024];
    const ssize_t n = recv(fd(), chunk, sizeof chunk, 0);
    if (n > 0) BIO_write(in_, chunk, static_cast<int>(n));
    return n > 0;
  }
  bool send_raw(std::string_view bytes) {
    const std::size_t piece = o_.piece_bytes != 0 ? o_.piece_bytes : bytes.size();
    while (!bytes.empty()) {
      const std::string_view now = bytes.substr(0, piece);
      std::size_t sent = 0;
      while (sent < now.size()) {
        pollfd p{fd(), POLLIN | POLLOUT, 0};
        if (poll(&p, 1, patience_ms) != 1) throw std::runtime_error("cannot send");
        if ((p.revents & POLLIN) != 0 && !receive_raw()) return false;  // the server waits until it has been read from
        const ssize_t n = ::send(fd(), now.data() + sent, now.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) return false;
        sent += n < 0 ? 0 : static_cast<std::size_t>(n);
      }
      bytes.remove_prefix(now.size());
      if (o_.piece_bytes != 0) std::this_thread::sleep_for(100us);
    }
    return true;
  }
  // In records of `record_bytes`.
  bool send_records(std::string_view bytes, std::size_t record_bytes) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(record_bytes, bytes.size()))) {
      const std::string_view record = bytes.substr(0, record_bytes);
      if (SSL_write(ssl_.get(), record.data(), static_cast<int>(record.size())) <= 0) return false;
    }
    return flush();
  }
  bool send(std::string_view bytes) override {
    for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(65536, bytes.size()))) {
      if (!send_records(bytes.substr(0, 65536), 65536)) return false;
    }
    return true;
  }
  // Tells the server that nothing follows.
  void close_notify() {
    SSL_shutdown(ssl_.get());
    flush();
  }
  bool got_close_notify() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  bool flush() { return send_raw(take_raw()); }
  // The name in the server's certificate.
  std::string server_name() const {
    char name[100] = "";
    X509* certificate = SSL_get1_peer_certificate(ssl_.get());
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    X509_free(certificate);
    return name;
  }

 protected:
  bool has_pending() const override { return SSL_has_pending(ssl_.get()) != 0 || BIO_ctrl_pending(in_) != 0; }
  bool receive(std::string& to) override {
    char chunk[16 * 1024];
    for (;;) {
      ERR_clear_error();
      const int n = SSL_read(ssl_.get(), chunk, sizeof chunk);
      if (n > 0) {
        to.append(chunk, static_cast<std::size_t>(n));
        return true;
      }
      if (SSL_get_error(ssl_.get(), n) != SSL_ERROR_WANT_READ || !flush() || !receive_raw()) return false;
    }
  }

 private:
  const Options o_;
  SslContextPtr context_;
  SslPtr ssl_;
  BIO *in_ = nullptr, *out_ = nullptr;  // the session's
  bool is_over_ = false;
};

inline bool can_connect(int port, const TlsClientOptions& options = {}) {
  TlsClientOptions later = options;
  later.shakes_hands = false;
  TlsClient c(port, later);
  // A client of TLS 1.3 is finished before the server has looked at its certificate.
  return c.shake_hands() && c.ask("mn\r\n") == "MN\r\n";
}

}  // namespace tandem::net::test
