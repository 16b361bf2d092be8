/* Tandem embedded, for C and for every language that calls C: the store in your process. tandem/store.hpp is the same for
 * C++, with more.
 *
 *   tandem_options options;
 *   tandem_options_init(&options, sizeof options);
 *   options.memory_bytes = (uint64_t)1 << 30;
 *   char error[256];
 *   tandem_store* store = tandem_open(&options, error, sizeof error);
 *   if (store == NULL) fail(error);
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
 * Lifetime, fork, threads: `store` must not be NULL in any call but tandem_close(), and no call may follow tandem_close():
 * what happens then is undefined. A store starts two threads of its own; with a memory file tandem_open() uses up to 16
 * more while it reads the file. They do not exist in a child of fork(): the child must not use the store, nor close it,
 * and should call exec or _exit. It holds the lock of a memory file until then.
 *
 * docs/embedding.md of the source tree has examples.
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

/* Of this header. tandem_version() is the library's. */
#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

#define TANDEM_API __attribute__((visibility("default")))

/* NOLINTBEGIN(readability-identifier-naming): the names of C. */
typedef struct tandem_store tandem_store;

/* What became of an operation. */
typedef int32_t tandem_code;
enum {
  TANDEM_HIT = 0,           /* get, touch: there is such an item. Counters: the number is the new value */
  TANDEM_MISS = 1,          /* there is none */
  TANDEM_STORED = 2,        /* the value is the item's */
  TANDEM_NOT_STORED = 3,    /* add found an item; replace, append, prepend found none */
  TANDEM_EXISTS = 4,        /* compare-and-set: the item has changed since */
  TANDEM_REMOVED = 5,       /* there was an item, and is none now */
  TANDEM_NOT_A_NUMBER = 6,  /* counters: the value is not a decimal number of 64 bits */
  TANDEM_TOO_LARGE = 7,     /* the item would exceed item_bytes_max; a set removes the old item, other calls leave it */
  TANDEM_OUT_OF_MEMORY = 8, /* no memory could be freed, or the process has none */
  TANDEM_BAD_KEY = 9,       /* empty or longer than 250 bytes: nothing was done */
  TANDEM_TOO_MANY_THREADS = 10, /* threads_max threads use the store already: nothing was done */
  TANDEM_BAD_REQUEST = 11,      /* tandem_execute: an action that is none. Scans: a limit of 0, or a range that was not
                                 * zeroed. Nothing was done */
  TANDEM_NOT_ORDERED = 12       /* scans: the store keeps no order (tandem_options.ordered); nothing was done */
};

typedef struct tandem_options {
  size_t struct_bytes;          /* set by tandem_options_init() */
  uint64_t memory_bytes;        /* items and index together; 4 MiB to 128 GiB; 256 MiB */
  uint64_t item_bytes_max;      /* 1 KiB to 1 GiB, and at most half of memory_bytes; 1 MiB */
  uint64_t hash_seed;           /* 0: random */
  const char* memory_file;      /* items lie in this file and outlive the process; NULL: in memory alone */
  uint32_t item_bytes_expected; /* sizes the first index; 256 */
  uint32_t threads_max;         /* that may use the store at once; 1 to 65536; 256 */
  uint32_t evict;               /* 0: a full store answers TANDEM_OUT_OF_MEMORY; 1 */
  uint32_t huge_pages;          /* ask the kernel for huge pages; 1 */
  uint32_t ordered;             /* keep the keys in order, too, for scans; some 15 bytes of memory a key; 0 */
  uint32_t arrange;             /* with ordered: rewrite small items that are scanned often next to each other, in the
                                   background; 1 */
  uint64_t gpu_value_bytes;     /* of each GPU's memory, for copies of small items, which calls do not read; not with
                                   mega-kv, kvcg; 0 */
  const char* gpu;              /* NULL: "cuda"; or "sim": in software, to see that it works */
  const char* preset;           /* what the GPUs do, or which index there is: NULL: "auto"; mirrored, mega-kv, kvcg,
                                   cpu, memcachedgpu, heterokv (docs/gpu.md of the source tree) */
  uint32_t gpus;                /* that run a part of batches: 0, 1, 2, 4 or 8; several share the keys; 0 */
  uint32_t reserved;            /* 0 */
  const char* index;            /* the kind of index in place of the preset's: NULL, or cuckoo, set_associative, hash_tree,
                                   slab_list. EINVAL for what `ordered` or GPUs do not go with */
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
  TANDEM_DECREMENT = 10,
  TANDEM_COMPARE_AND_REMOVE = 11, /* TANDEM_REMOVED, TANDEM_EXISTS: the item has changed since, TANDEM_MISS */
  TANDEM_EXCHANGE = 12,           /* TANDEM_HIT: the reply's value, flags and cas are the old item's; TANDEM_STORED */
  TANDEM_TAKE = 13                /* TANDEM_REMOVED, likewise; TANDEM_MISS */
};

/* One operation of a batch. What an action does not need is ignored. */
typedef struct tandem_request {
  uint32_t action; /* TANDEM_GET, ... */
  uint32_t flags;  /* kept with the item */
  const char* key;
  size_t key_bytes;
  const char* value;
  size_t value_bytes;
  int64_t ttl_s;  /* seconds from now; 0: never; negative: at once; above 30 days: Unix time */
  uint64_t cas;   /* TANDEM_COMPARE_AND_SET, _REMOVE: that of the read */
  uint64_t delta; /* counters: increments wrap at 2^64, decrements stop at 0 */
} tandem_request;

/* Its result. `value` points into the store, and is valid only while the visitor runs. */
typedef struct tandem_reply {
  tandem_code code;
  uint32_t flags;
  const char* value;
  size_t value_bytes;
  uint64_t cas;    /* of the item read or stored, or the old one */
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

/* The library's version, such as "0.1.0"; static. TANDEM_VERSION_MAJOR, _MINOR and _PATCH are this header's. */
TANDEM_API const char* tandem_version(void);

/* Sets the defaults: call it before any option is set. struct_bytes: sizeof(tandem_options). */
TANDEM_API void tandem_options_init(tandem_options* options, size_t struct_bytes);

/* Opens a store. options: NULL for the defaults. NULL on failure. `error`, if error_bytes is not 0, gets the reason, or an
 * empty text on success; it may be NULL if error_bytes is 0. errno after a failure: EINVAL for bad options, ENOMEM, EIO
 * for a memory file that is in use or cannot be used, ENODEV for GPUs that are not there, or that of a system call. With
 * a memory file it returns when every item can be read. */
TANDEM_API tandem_store* tandem_open(const tandem_options* options, char* error, size_t error_bytes);
/* Closes it, and frees its memory. No thread may be inside a call. NULL is nothing. */
TANDEM_API void tandem_close(tandem_store* store);

/* Reads an item. TANDEM_HIT with the value, or TANDEM_MISS, TANDEM_BAD_KEY, TANDEM_OUT_OF_MEMORY, TANDEM_TOO_MANY_THREADS,
 * which leave `value` alone. */
TANDEM_API tandem_code tandem_get(tandem_store* store, const char* key, size_t key_bytes, tandem_value* value);
/* Frees what a value holds, and zeros it. */
TANDEM_API void tandem_value_free(tandem_value* value);
/* Reads an item into the caller's memory, with one copy. TANDEM_HIT: `out` has the value, and `reply`, if it is not NULL,
 * its length, flags and cas; TANDEM_TOO_LARGE: the value has reply->value_bytes bytes, more than `capacity`, and nothing
 * was copied; else as tandem_get(). reply->value is `out`. `out` may be NULL if capacity is 0. */
TANDEM_API tandem_code tandem_get_into(tandem_store* store, const char* key, size_t key_bytes, void* out,
                                       size_t capacity, tandem_reply* reply);

/* What follows may also answer TANDEM_OUT_OF_MEMORY, TANDEM_BAD_KEY and TANDEM_TOO_MANY_THREADS. ttl_s: seconds from now;
 * 0: never; negative: at once; above 30 days: Unix time. flags: a number kept with the item. */

/* Stores the value, whether there is an item or not. TANDEM_STORED, TANDEM_TOO_LARGE. */
TANDEM_API tandem_code tandem_set(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                  size_t value_bytes, int64_t ttl_s, uint32_t flags);
/* Stores the value if there is no item. TANDEM_STORED, TANDEM_NOT_STORED, TANDEM_TOO_LARGE. */
TANDEM_API tandem_code tandem_add(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                  size_t value_bytes, int64_t ttl_s, uint32_t flags);
/* Stores the value if there is an item. TANDEM_STORED, TANDEM_NOT_STORED, TANDEM_TOO_LARGE. */
TANDEM_API tandem_code tandem_replace(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                      size_t value_bytes, int64_t ttl_s, uint32_t flags);
/* Adds to the end of a value; flags and time to live stay. TANDEM_STORED, TANDEM_NOT_STORED: there is no item,
 * TANDEM_TOO_LARGE: the item stays as it is. */
TANDEM_API tandem_code tandem_append(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                     size_t value_bytes);
/* The same in front of it. */
TANDEM_API tandem_code tandem_prepend(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                      size_t value_bytes);
/* Stores the value if the item's cas is still that of the read. TANDEM_STORED, TANDEM_EXISTS: it is another one,
 * TANDEM_MISS: there is no item, TANDEM_TOO_LARGE. */
TANDEM_API tandem_code tandem_compare_and_set(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                              size_t value_bytes, uint64_t cas, int64_t ttl_s, uint32_t flags);
/* Removes the item. TANDEM_REMOVED, TANDEM_MISS. */
TANDEM_API tandem_code tandem_remove(tandem_store* store, const char* key, size_t key_bytes);
/* Gives the item another time to live. TANDEM_HIT, TANDEM_MISS. */
TANDEM_API tandem_code tandem_touch(tandem_store* store, const char* key, size_t key_bytes, int64_t ttl_s);
/* Adds to a decimal number; wraps at 2^64. TANDEM_HIT with the new number, if `number` is not NULL; TANDEM_MISS,
 * TANDEM_NOT_A_NUMBER. */
TANDEM_API tandem_code tandem_increment(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta,
                                        uint64_t* number);
/* The same, subtracting; stops at 0. */
TANDEM_API tandem_code tandem_decrement(tandem_store* store, const char* key, size_t key_bytes, uint64_t delta,
                                        uint64_t* number);

/* Runs the requests in order and visits each reply. Batches of 32 and more overlap their cache misses. TANDEM_HIT when
 * all were run; TANDEM_BAD_REQUEST or TANDEM_TOO_MANY_THREADS, with nothing done; TANDEM_OUT_OF_MEMORY. */
TANDEM_API tandem_code tandem_execute(tandem_store* store, const tandem_request* requests, size_t count,
                                      tandem_visitor visit, void* context);

/* Keys that lie in an array: `count` of key_bytes bytes each. A stride is the distance from one to the next, in bytes;
 * it may be negative. `bytes` is the first one's address. */
typedef struct tandem_keys {
  const void* bytes;
  size_t key_bytes;
  ptrdiff_t stride;
  size_t count;
} tandem_keys;

/* Batches of rows: keys of one length, values of one length, in the caller's arrays, in order. TANDEM_HIT when all were
 * run; TANDEM_BAD_KEY (key_bytes is not from 1 to 250) or TANDEM_TOO_MANY_THREADS, with nothing done;
 * TANDEM_OUT_OF_MEMORY: perhaps some. The arrays must not overlap, but keys and values that are read may. An array of
 * bytes for the results (`found`, `codes`) has one for each key, or is NULL.
 *
 * Copies the values of the keys to `values`. found: 0 no item, and the row stays as it is; 1 copied; 2 an item with a
 * value of another length, and the row stays. hits: NULL, or how many were copied. */
TANDEM_API tandem_code tandem_get_rows(tandem_store* store, const tandem_keys* keys, void* values, size_t value_bytes,
                                       ptrdiff_t value_stride, uint8_t* found, size_t* hits);
/* Stores them as tandem_set() does, with flags 0: of equal keys the last remains. codes: of each row. */
TANDEM_API tandem_code tandem_set_rows(tandem_store* store, const tandem_keys* keys, const void* values,
                                       size_t value_bytes, ptrdiff_t value_stride, int64_t ttl_s, uint8_t* codes);
/* Removes them. found: 1 there was an item, else 0. */
TANDEM_API tandem_code tandem_remove_rows(tandem_store* store, const tandem_keys* keys, uint8_t* found);
/* Gives them another time to live. found: 1 there is an item, else 0. */
TANDEM_API tandem_code tandem_touch_rows(tandem_store* store, const tandem_keys* keys, int64_t ttl_s, uint8_t* found);

/* Visits every item; those that are stored or removed meanwhile may be visited. TANDEM_HIT when it is done,
 * TANDEM_OUT_OF_MEMORY, TANDEM_TOO_MANY_THREADS. */
TANDEM_API tandem_code tandem_for_each(tandem_store* store, tandem_item_visitor visit, void* context);

/* Keys from `begin` up to but not including `end`, in the order of their bytes; a key comes before those that it begins.
 * 0 bytes: no bound on that side. Zero it before the first use. */
typedef struct tandem_range {
  const char* begin;
  size_t begin_bytes;
  const char* end;
  size_t end_bytes;
  uint8_t after_begin; /* not 0: without `begin` itself */
  uint8_t reverse;     /* not 0: from the end downwards */
  uint8_t reserved[6]; /* 0 */
} tandem_range;

/* How a scan ended. Not done: there may be more behind `last`, a key that may have gone meanwhile. */
typedef struct tandem_scanned {
  uint64_t count;
  uint32_t last_bytes;
  uint8_t done;
  uint8_t reserved[3];
  char last[256];
} tandem_scanned;

/* Makes the range all keys that begin with `prefix`. `above`: prefix_bytes bytes for its end. The range refers to both. */
TANDEM_API void tandem_range_of_prefix(tandem_range* range, const char* prefix, size_t prefix_bytes, char* above);
/* Leaves what a scan that ended so has not seen. The range refers to `scanned`, which the next scan of it may fill. */
TANDEM_API void tandem_go_on_behind(tandem_range* range, const tandem_scanned* scanned);

/* Visits the range's first items in order, of a store with tandem_options.ordered: at most `limit`, 1,024, and 256 KiB of
 * keys and values, one item at least. They are a snapshot: the store held these items, and no other between them, at one
 * moment of the call. It may end earlier still, or without an item, and not be done. range: NULL for all keys. scanned:
 * NULL, or how it ended. The visitor is called when the snapshot is complete, and may use the store. TANDEM_HIT,
 * TANDEM_NOT_ORDERED, TANDEM_BAD_REQUEST, TANDEM_OUT_OF_MEMORY, TANDEM_TOO_MANY_THREADS. */
TANDEM_API tandem_code tandem_scan(tandem_store* store, const tandem_range* range, size_t limit,
                                   tandem_item_visitor visit, void* context, tandem_scanned* scanned);
/* One of a batch of scans. Zero it before the first use. */
typedef struct tandem_range_scan {
  tandem_range range; /* may refer to its own `scanned`, as tandem_go_on_behind(&range, &scanned) leaves it */
  uint64_t limit;
  tandem_scanned scanned; /* how it ended; `last` stays as it was if it is done */
} tandem_range_scan;
typedef void (*tandem_batch_item_visitor)(void* context, size_t index, const char* key, size_t key_bytes,
                                          const tandem_reply* item);

/* tandem_scan() of each, in order; each is a snapshot of its own. What they read first is fetched for 16 of them
 * together, so short scans of what is in memory, not in the processor's caches, take less time. TANDEM_NOT_ORDERED,
 * TANDEM_BAD_REQUEST (of any), TANDEM_TOO_MANY_THREADS: none was run. TANDEM_OUT_OF_MEMORY: some were, and the
 * `scanned` of the rest is as before. */
TANDEM_API tandem_code tandem_scan_batch(tandem_store* store, tandem_range_scan* scans, size_t count,
                                         tandem_batch_item_visitor visit, void* context);
/* Removes all keys of the range, each as tandem_remove() does, and not all at one moment: a key that is set meanwhile may
 * stay. removed: NULL, or how many there were. As tandem_scan(). */
TANDEM_API tandem_code tandem_remove_range(tandem_store* store, const tandem_range* range, uint64_t* removed);

/* Rewrites small items (key, value and header in at most 128 bytes) next to each other in the order of their keys, so
 * that scans are faster: all of the store, now, as after loading it. Needs free memory for a mebibyte or two, else it
 * may evict as much, or stop. Other threads may use the store. moved: NULL, or how many items it has rewritten. As
 * tandem_scan(). */
TANDEM_API tandem_code tandem_arrange(tandem_store* store, uint64_t* moved);

/* Removes every item that is in the store now. */
TANDEM_API void tandem_clear(tandem_store* store);
/* Fills in the statistics. struct_bytes: sizeof(tandem_stats). */
TANDEM_API void tandem_get_stats(tandem_store* store, tandem_stats* stats, size_t struct_bytes);

/* A tandem_set() that returns the item which it replaces, and leaves it if refused. TANDEM_HIT: `old` has it;
 * TANDEM_STORED: there was none; TANDEM_TOO_LARGE. Of several exchanges of a key each value is returned once. old: NULL,
 * or as of tandem_get(); it stays as it is where there was no item. Without memory for the old value the answer is
 * TANDEM_OUT_OF_MEMORY, but the new one is stored: `old` of enough capacity rules that out. */
TANDEM_API tandem_code tandem_exchange(tandem_store* store, const char* key, size_t key_bytes, const char* value,
                                       size_t value_bytes, int64_t ttl_s, uint32_t flags, tandem_value* old);
/* Removes the item and returns it. TANDEM_REMOVED, TANDEM_MISS. old: as of tandem_exchange(). */
TANDEM_API tandem_code tandem_take(tandem_store* store, const char* key, size_t key_bytes, tandem_value* old);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
