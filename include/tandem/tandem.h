/* Tandem embedded, for C and for every language that calls C: the store in your process. tandem/store.hpp is the same for
 * C++, with more.
 *
 *   tandem_options options;
 *   tandem_options_init(&options, sizeof options);
 *   options.memory_bytes = (uint64_t)1 << 30;
 *   char error[256];
 *   tandem_store* store = tandem_open(&options, error, sizeof error);
 *   tandem_set(store, "answer", 6, "42", 2, 60, 0);
 *   tandem_value value = {0};
 *   if (tandem_get(store, "answer", 6, &value) == TANDEM_HIT) use(value.bytes, value.size);
 *   tandem_value_free(&value);
 *   tandem_close(store);
 *
 * Keys: 1 to 250 bytes, any bytes. Values: any bytes, up to options.item_bytes_max less key and header. A full store
 * evicts what was not used lately, unless options.evict is 0.
 *
 * Thread safety: a store may be used from any number of threads at once, options.threads_max at most. Operations on one
 * key are linearizable.
 *
 * Stability: within one soname (libtandem.so.N) no function, structure member or number of this file changes its meaning
 * or place. Structures that may grow are passed with their size; programs built with an older header go on working. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_API __attribute__((visibility("default")))

/* NOLINTBEGIN(readability-identifier-naming): the names of C. */
typedef struct tandem_store tandem_store;

/* What became of an operation. */
typedef int32_t tandem_code;
enum {
  TANDEM_HIT = 0,           /* get, touch: there is such an item. Counters: the number is the new value */
  TANDEM_MISS = 1,          /* there is none */
  TANDEM_STORED = 2,        /* */
  TANDEM_NOT_STORED = 3,    /* add found an item; replace, append, prepend found none */
  TANDEM_EXISTS = 4,        /* compare-and-set: the item has changed since */
  TANDEM_REMOVED = 5,       /* */
  TANDEM_NOT_A_NUMBER = 6,  /* counters: the value is not a decimal number of 64 bits */
  TANDEM_TOO_LARGE = 7,     /* the item would exceed item_bytes_max; a set removes the old item */
  TANDEM_OUT_OF_MEMORY = 8, /* no memory could be freed, or the process has none */
  TANDEM_BAD_KEY = 9,       /* empty or longer than 250 bytes: nothing was done */
  TANDEM_TOO_MANY_THREADS = 10, /* threads_max threads use the store already: nothing was done */
  TANDEM_BAD_REQUEST = 11       /* tandem_execute: an action that is none; nothing was done */
};

typedef struct tandem_options {
  size_t struct_bytes;          /* set by tandem_options_init() */
  uint64_t memory_bytes;        /* items and index together; 4 MiB to 128 GiB; 256 MiB */
  uint64_t item_bytes_max;      /* 1 KiB to 1 GiB, and at most half of memory_bytes; 1 MiB */
  uint64_t hash_seed;           /* 0: random */
  const char* memory_file;      /* items lie in this file and outlive the process; NULL: in memory alone */
  uint32_t item_bytes_expected; /* sizes the first index; 256 */
  uint32_t threads_max;         /* 256 */
  uint32_t evict;               /* 0: a full store answers TANDEM_OUT_OF_MEMORY; 1 */
  uint32_t huge_pages;          /* ask the kernel for huge pages; 1 */
} tandem_options;

/* A value read. Zero it before the first use; later reads reuse its memory. Free it with tandem_value_free(). */
typedef struct tandem_value {
  char* bytes;
  size_t size, capacity;
  uint64_t cas; /* grows with every change of a key */
  uint32_t flags, reserved;
} tandem_value;

enum {
  TANDEM_GET = 0,
  TANDEM_TOUCH = 1,
  TANDEM_SET = 2,
  TANDEM_ADD = 3,
  TANDEM_REPLACE = 4,
  TANDEM_APPEND = 5,
  TANDEM_PREPEND = 6,
  TANDEM_COMPARE_AND_SET = 7,
  TANDEM_REMOVE = 8,
  TANDEM_INCREMENT = 9,
  TANDEM_DECREMENT = 10
};

/* One operation of a batch. What an action does not need is ignored. */
typedef struct tandem_request {
  uint32_t action; /* TANDEM_GET, ... */
  uint32_t flags;  /* kept with the item */
  const char* key;
  size_t key_bytes;
  const char* value;
  size_t value_bytes;
  int64_t ttl_s;  /* seconds from now; 0: never; above 30 days: Unix time */
  uint64_t cas;   /* TANDEM_COMPARE_AND_SET: that of the read */
  uint64_t delta; /* counters: increments wrap at 2^64, decrements stop at 0 */
} tandem_request;

/* Its result. `value` points into the store, and is valid only while the visitor runs. */
typedef struct tandem_reply {
  tandem_code code;
  uint32_t flags;
  const char* value;
  size_t value_bytes;
  uint64_t cas;    /* of the item read or stored */
  uint64_t number; /* of a counter */
} tandem_reply;

typedef struct tandem_stats {
  size_t struct_bytes;
  uint64_t items, item_bytes, memory_used_bytes, memory_limit_bytes, index_bytes;
  uint64_t gets, hits, misses, stores, evictions, expired;
} tandem_stats;

/* Called for each reply, in the order of the requests; must be short, must not use the store, throw or jump. */
typedef void (*tandem_visitor)(void* context, size_t index, const tandem_reply* reply);
typedef void (*tandem_item_visitor)(void* context, const char* key, size_t key_bytes, const tandem_reply* item);

/* "0.1.0"; static. */
TANDEM_API const char* tandem_version(void);

/* Sets the defaults. struct_bytes: sizeof(tandem_options). */
TANDEM_API void tandem_options_init(tandem_options* options, size_t struct_bytes);

/* options: NULL for the defaults. NULL on failure, with the reason in `error` if error_bytes is not 0. With a memory file
 * it returns when every item can be read. */
TANDEM_API tandem_store* tandem_open(const tandem_options* options, char* error, size_t error_bytes);
/* No thread may be inside a call. NULL is nothing. */
TANDEM_API void tandem_close(tandem_store* store);

/* TANDEM_HIT with the value, or another code, which leaves `value` alone. */
TANDEM_API tandem_code tandem_get(tandem_store* store, const char* key, size_t key_bytes, tandem_value* value);
TANDEM_API void tandem_value_free(tandem_value* value);

TANDEM_API tandem_code tandem_set(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                  size_t value_bytes, int64_t ttl_s, uint32_t flags);
TANDEM_API tandem_code tandem_add(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                  size_t value_bytes, int64_t ttl_s, uint32_t flags);
TANDEM_API tandem_code tandem_replace(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                      size_t value_bytes, int64_t ttl_s, uint32_t flags);
TANDEM_API tandem_code tandem_append(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                     size_t value_bytes);
TANDEM_API tandem_code tandem_prepend(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                      size_t value_bytes);
/* TANDEM_STORED if the item's cas is still that of the read, else TANDEM_EXISTS or TANDEM_MISS. */
TANDEM_API tandem_code tandem_compare_and_set(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                              size_t value_bytes, uint64_t cas, int64_t ttl_s, uint32_t flags);
TANDEM_API tandem_code tandem_remove(tandem_store* store, const char* key, size_t key_bytes);
TANDEM_API tandem_code tandem_touch(tandem_store* store, const char* key, size_t key_bytes, int64_t ttl_s);
/* TANDEM_HIT with the new number, if `number` is not NULL. */
TANDEM_API tandem_code tandem_increment(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta,
                                        uint64_t* number);
TANDEM_API tandem_code tandem_decrement(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta,
                                        uint64_t* number);

/* Runs the requests in order and visits each reply. Batches of 32 and more overlap their cache misses. TANDEM_HIT when
 * all were run; TANDEM_BAD_REQUEST or TANDEM_TOO_MANY_THREADS, with nothing done, or TANDEM_OUT_OF_MEMORY. */
TANDEM_API tandem_code tandem_execute(tandem_store* store, const tandem_request* requests, size_t count,
                                      tandem_visitor visit, void* context);

/* Visits every item; those that are stored or removed meanwhile may be visited. TANDEM_HIT when it is done. */
TANDEM_API tandem_code tandem_for_each(tandem_store* store, tandem_item_visitor visit, void* context);

/* Removes every item that is in the store now. */
TANDEM_API void tandem_clear(tandem_store* store);
/* struct_bytes: sizeof(tandem_stats). */
TANDEM_API void tandem_get_stats(tandem_store* store, tandem_stats* stats, size_t struct_bytes);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
