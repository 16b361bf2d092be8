// What can be wrong with certificates, keys and options: memcached's texts, and that a bad reload changes nothing.
#include "net/tls_context.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "net/tls_test_files.hpp"

namespace tandem::net::test {
namespace {

class TlsContextTest : public testing::Test {
 protected:
  std::string error_of(const std::function<void(TlsOptions&)>& change) {
    TlsOptions changed = options;
    change(changed);
    try {
      const TlsContext context(changed);
      return {};
    } catch (const TlsError& error) {
      return error.what();
    }
  }

  TlsFiles files;
  Identity identity = make_identity("server"), other = make_identity("other");
  TlsOptions options = files.serve(identity);
};

TEST_F(TlsContextTest, SaysWhatIsWrong) {
  EXPECT_EQ(error_of([](TlsOptions&) {}), "");
  const std::string missing = files.path("missing"), text = files.write("text", "no certificate");
  EXPECT_EQ(error_of([&](TlsOptions& o) { o.certificate = missing; }),
            "Error loading the certificate chain: " + missing +
                " : error:80000002:system library::No such file or directory");
  EXPECT_EQ(error_of([&](TlsOptions& o) { o.certificate = text; }),
            "Error loading the certificate chain: " + text + " : error:0480006C:PEM routines::no start line");
  EXPECT_EQ(error_of([&](TlsOptions& o) { o.key = missing; }),
            "Error loading the key: " + missing + " : error:80000002:system library::No such file or directory");
  const std::string strange = files.write("other.key", other.key.get());
  EXPECT_EQ(error_of([&](TlsOptions& o) { o.key = strange; }),
            "Error loading the key: " + strange + " : error:05800074:x509 certificate routines::key values mismatch");
  EXPECT_EQ(
      error_of([&](TlsOptions& o) { o.ca = missing; }),
      "Error loading the CA certificate: " + missing + " : error:80000002:system library::No such file or directory");
  EXPECT_EQ(error_of([](TlsOptions& o) { o.ciphers = "nonsense"; }), "Error setting the provided cipher(s): nonsense");
}

TEST_F(TlsContextTest, KeyInTheCertificatesFile) {
  std::FILE* both = std::fopen(options.certificate.c_str(), "ab");
  PEM_write_PrivateKey(both, identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(both);
  EXPECT_EQ(error_of([](TlsOptions& o) { o.key.clear(); }), "");
}

TEST_F(TlsContextTest, KeyInDer) {
  const std::string path = files.path("key.der");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  i2d_PrivateKey_fp(file, identity.key.get());
  std::fclose(file);
  const auto change = [&](TlsOptions& o) {
    o.key = path;
    o.key_format = 2;
  };
  EXPECT_EQ(error_of(change), "");
}

// OpenSSL asks for no passphrase on the terminal.
TEST_F(TlsContextTest, KeyBehindAPassphraseIsRefused) {
  std::FILE* file = std::fopen(options.key.c_str(), "wb");
  PEM_write_PrivateKey(file, identity.key.get(), EVP_aes_128_cbc(), nullptr, 0, nullptr,
                       const_cast<char*>("passphrase"));
  std::fclose(file);
  EXPECT_TRUE(error_of([](TlsOptions&) {}).starts_with("Error loading the key: " + options.key));
}

TEST_F(TlsContextTest, FailedReloadChangesNothing) {
  TlsContext context(options);
  const auto served = [&] {
    const SslPtr ssl = context.new_session();
    return X509_cmp(SSL_get_certificate(ssl.get()), identity.certificate.get()) == 0;
  };
  EXPECT_TRUE(served());
  files.write("server.pem", other.certificate.get());
  EXPECT_TRUE(context.reload().starts_with("Error loading the key: "));
  EXPECT_TRUE(served());
  const SslPtr old = context.new_session();
  files.write("server.key", other.key.get());
  EXPECT_EQ(context.reload(), "");
  EXPECT_FALSE(served());
  EXPECT_EQ(X509_cmp(SSL_get_certificate(old.get()), identity.certificate.get()), 0) << "a session keeps what it had";
}

TEST(TlsTexts, AreMemcacheds) {
  EXPECT_EQ(tls_version_text(0), "tlsv1.0");
  EXPECT_EQ(tls_version_text(3), "tlsv1.3");
  EXPECT_EQ(openssl_verify_mode(0), 0);
  EXPECT_EQ(openssl_verify_mode(1), 1);
  EXPECT_EQ(openssl_verify_mode(2), 3);
  EXPECT_EQ(openssl_verify_mode(3), 7);
}

}  // namespace
}  // namespace tandem::net::test
