"""Settings for Django's own tests of caches. TANDEM_SERVERS: the addresses of servers, with blanks between."""

import os

SERVERS = os.environ["TANDEM_SERVERS"].split()

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3"},
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": SERVERS},
    "tandem": {"BACKEND": "tandem.contrib.django.TandemCache", "LOCATION": SERVERS},
    "store": {"BACKEND": "tandem.contrib.django.StoreCache", "OPTIONS": {"memory": "64MiB"}},
}
