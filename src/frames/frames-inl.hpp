// The body of answer_frames: one tile from the bytes of its pieces to replies and runs. Compiled by nvcc for
// GPUs and by the host's compiler for the simulated device. A stage is a loop of independent turns over units, lines or
// keys: on a GPU a block's threads share them, on the host one thread takes them in order.
//
// T, the tile's processor:
//   each(n, f)            f(i) for all i < n; what they stored is seen by all when it returns
//   both(n, f, m, g)      likewise, f(i) for all i < n beside g(j) for all j < m, by threads of their own where there
//   are
//                         enough: main and helper warps
//   once(f)               f() in one thread, likewise
//   scan(a, n)            a[i] becomes the sum of those before it; returns the sum of all
//   lower(x, v), add(x, v)  *x = min(*x, v), *x += v, by several threads at once
//   take(cursor, n)       *cursor += n, by several tiles at once; returns what it was
//   search(table, f, n, location)   as search_table
//   mark_read(images, l)  whether the item's mark was set already; it is now
//   columns()             short_hash::columns
// Every thread of a block calls answer_tile() and, in it, all of these in the same order.
#pragma once
#include <cstdint>

#include "frames/frames.hpp"
#include "frames/key_hash-inl.hpp"
#include "frames/raw_frames-inl.hpp"
#include "frames/replies-inl.hpp"

namespace tandem::frames {

// --- S and KC

// REQUIRES: bytes != 0. Reads no word beyond the last byte's.
TD_LANE bool equal(const char* a, const char* b, std::uint32_t bytes) {
  if (bytes >= 8) {
    for (std::uint32_t i = 0; i + 8 < bytes; i += 8) {
      if (load_8(a + i) != load_8(b + i)) return false;
    }
    return load_8(a + bytes - 8) == load_8(b + bytes - 8);
  }
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Whether the image answers for the key.
TD_LANE bool answers(const Image& image, const ItemImages& images, const FrameRules& rules, std::uint32_t location,
                     const char* key, std::uint32_t key_bytes) {
  const std::uint32_t granules = image_granules(image.state, image.fixed);
  if (granules == 0 || granules > images.item_granules || granules > images.count - location) return false;
  if ((image.state & (word::Stale::mask | word::Win::mask)) != 0) return false;
  const auto expiry_s = static_cast<std::uint32_t>(word::ExpiryS::get(image.state));
  if (expiry_s != 0 && expiry_s <= rules.now_s) return false;
  if (rules.flush_cas != 0 && image.cas() < rules.flush_cas) return false;
  return image.key_bytes() == key_bytes && equal(image.item + image.key_offset(), key, key_bytes);
}

// Beside the first step helper warps verify the checksums of raw frames.
template <Form form, class T>
TD_LANE void look_up(T& t, Scratch& s, const Job& job, const FrameRules& rules, std::uint32_t lines) {
  const auto hash = [&](std::uint32_t k) {
    s.key_f[k] = fingerprint(s.bytes() + s.key_at[k], s.key_bytes[k], rules.seed, rules.secret.data(), t.columns());
  };
  if constexpr (form == Form::raw) {
    t.both(s.keys, hash, lines, [&](std::uint32_t j) { verify_frame(s, j); });
  } else {
    t.each(s.keys, hash);
  }
  t.search(job.table, s.key_f, s.keys, s.key_location);
  if constexpr (form == Form::located) return;
  t.each(s.keys, [&](std::uint32_t k) {
    const std::uint32_t location = s.key_location[k];
    s.key_mark[k] = 0;
    if (location == no_location) {
      s.key_mark[k] = mark::miss;
      return;
    }
    s.key_mark[k] = mark::left;
    if (location >= job.images.count) return;
    const Image image = image_at(job.images, location);
    // The reply has a key that was stored in base64 as it was.
    if (word::BinaryKey::get(image.fixed) != 0 && s.line_kind[s.key_line[k]] > LineKind::meta) return;
    if (answers(image, job.images, rules, location, s.bytes() + s.key_at[k], s.key_bytes[k])) s.key_mark[k] = 0;
  });
}

// --- which lines are answered

// Decides which lines are answered: those with no key that is left, and with a reply that has room in a datagram. Marks
// what they read, and puts their replies' places in s.sum. Returns the bytes of all.
template <Form form, class T>
TD_LANE std::uint32_t measure(T& t, Scratch& s, const Job& job, std::uint32_t lines) {
  t.each(s.keys,
         [&](std::uint32_t k) { s.sum[k] = (s.key_mark[k] & mark::left) != 0 ? 0 : reply_bytes<form>(s, job, k); });
  t.each(lines, [&](std::uint32_t j) {
    if (s.line_state[j] != mark::good) return;
    std::uint32_t bytes = 0;
    for (std::uint32_t k = s.line_first_key[j], end = k + s.line_keys[j]; k < end; ++k) {
      if ((s.key_mark[k] & mark::left) != 0) s.line_state[j] = mark::of(FrameLeft::item);
      bytes += s.sum[k];
    }
    const bool is_datagram = form == Form::lines && s.piece[s.line_piece[j]].kind == FramePiece::datagram;
    if ((is_datagram && bytes > datagram_reply_bytes_max) ||
        (form == Form::raw && bytes > ethernet::header_bytes + datagram_reply_bytes_max))
      s.line_state[j] = mark::of(FrameLeft::length);
  });
  t.each(s.keys, [&](std::uint32_t k) {
    if (s.line_state[s.key_line[k]] != mark::good) {
      s.sum[k] = 0;
      s.key_mark[k] = mark::left;
    } else if ((s.key_mark[k] & mark::miss) != 0) {
      t.add(&s.misses, 1);
    } else if (!t.mark_read(job.images, s.key_location[k])) {
      s.key_mark[k] = mark::first_read;
    }
    s.key_rank[k] = s.key_mark[k] == mark::first_read ? 1 : 0;
  });
  return t.scan(s.sum, s.keys);
}

// The same for keys that are located: all lines that were parsed are answered.
template <class T>
TD_LANE std::uint32_t measure_located(T& t, Scratch& s) {
  t.each(s.keys, [&](std::uint32_t k) {
    s.sum[k] = s.line_state[s.key_line[k]] == mark::good ? sizeof(LocatedKey) : 0;
    s.key_mark[k] = 0;
    s.key_rank[k] = 0;
  });
  return t.scan(s.sum, s.keys);
}

// --- what the host is told

TD_LANE bool is_good(const Scratch& s, std::uint32_t j) { return s.line_state[j] == mark::good; }
// Whether a line belongs to a run: one that is answered or, of located keys, any.
template <Form form>
TD_LANE bool is_of_run(const Scratch& s, std::uint32_t j) {
  return form == Form::located || is_good(s, j);
}
// Whether j and j + 1 may be of one run: lines of one piece, or frames without a gap.
template <Form form>
TD_LANE bool are_neighbours(const Scratch& s, std::uint32_t j) {
  if constexpr (form == Form::raw) return s.line_end[j] + 1 == s.line_begin[j + 1];
  return s.line_piece[j + 1] == s.line_piece[j];
}
template <Form form>
TD_LANE bool begins_run(const Scratch& s, std::uint32_t j) {
  return is_of_run<form>(s, j) && (j == 0 || !is_of_run<form>(s, j - 1) || !are_neighbours<form>(s, j - 1));
}
template <Form form>
TD_LANE bool ends_run(const Scratch& s, std::uint32_t j, std::uint32_t lines) {
  return is_of_run<form>(s, j) && (j + 1 == lines || !is_of_run<form>(s, j + 1) || !are_neighbours<form>(s, j));
}

TD_LANE std::uint32_t misses_of(const Scratch& s, std::uint32_t first_key, std::uint32_t end_key) {
  std::uint32_t misses = 0;
  if (s.misses != 0) {
    for (std::uint32_t k = first_key; k < end_key; ++k) misses += s.key_mark[k] & mark::miss;
  }
  return misses;
}

TD_LANE std::uint16_t metas_of(const Scratch& s, std::uint32_t first, std::uint32_t end) {
  std::uint32_t metas = 0;
  if (s.metas != 0) {
    for (std::uint32_t j = first; j < end; ++j) metas += is_meta(s.line_kind[j]) ? 1u : 0u;
  }
  return static_cast<std::uint16_t>(metas);
}

// The run of which line j is the last.
template <Form form>
TD_LANE FrameRun run_of(const Scratch& s, std::uint32_t run, std::uint32_t j, std::uint32_t total) {
  const std::uint32_t first = s.run_line[run];
  std::uint32_t first_key = s.line_first_key[first], end_key = s.line_first_key[j] + std::uint32_t{s.line_keys[j]};
  if constexpr (form == Form::located) {  // the last lines may have no room for their keys
    first_key = first_key < s.keys ? first_key : s.keys;
    end_key = end_key < s.keys ? end_key : s.keys;
  }
  const FramePiece& p = s.piece[s.line_piece[j]];
  const bool is_all = form == Form::located || p.kind == FramePiece::datagram;
  const std::uint32_t begin = is_all ? first_byte(p) : s.line_begin[first];
  const std::uint32_t keys = end_key - first_key, from = keys != 0 ? s.sum[first_key] : total;
  return {.begin = in_arena(p, begin),
          .reply_at = s.reply_at + from,
          .reply_bytes = (end_key < s.keys ? s.sum[end_key] : total) - from,
          .bytes = static_cast<std::uint16_t>(s.line_end[j] + 1 - begin),
          .requests = static_cast<std::uint16_t>(j + 1 - first),
          .keys = static_cast<std::uint16_t>(keys),
          .hits = static_cast<std::uint16_t>(keys - misses_of(s, first_key, end_key)),
          .metas = metas_of(s, first, j + 1),
          .first_read = keys != 0 ? s.key_rank[first_key] : std::uint16_t{0}};
}

TD_LANE FrameMiss miss_of(const Scratch& s, std::uint32_t k) {
  const std::uint32_t j = s.key_line[k], first = s.run_line[s.line_rank[j]];
  const std::uint32_t first_key = s.line_first_key[first], end_key = s.line_first_key[j];
  const std::uint32_t keys = end_key - first_key;
  return {.f = s.key_f[k],
          .line = in_arena(s.piece[s.line_piece[j]], s.line_begin[j]),
          .reply_bytes = s.sum[end_key] - s.sum[first_key],
          .requests = static_cast<std::uint16_t>(j - first),
          .keys = static_cast<std::uint16_t>(keys),
          .hits = static_cast<std::uint16_t>(keys - misses_of(s, first_key, end_key)),
          .metas = metas_of(s, first, j)};
}

TD_LANE std::uint32_t command_of(LineKind kind) {
  switch (kind) {
    case LineKind::set:
      return LocatedKey::set;
    case LineKind::meta_store:
      return LocatedKey::meta_store;
    case LineKind::plain:
      return LocatedKey::get;
    case LineKind::with_cas:
      return LocatedKey::gets;
    default:
      return LocatedKey::meta_read;
  }
}

// In place of WR.
template <class T>
TD_LANE void write_locations(T& t, const Scratch& s, const Job& job) {
  t.each(s.keys, [&](std::uint32_t k) {
    const std::uint32_t j = s.key_line[k];
    if (!is_good(s, j)) return;
    const bool is_first = k == s.line_first_key[j], is_last = is_last_key(s, k);
    // A piece's first line may stand behind one of the piece before it, which is as good as a gap.
    const bool is_behind_gap = is_first && (j == 0 || !is_good(s, j - 1) || s.line_piece[j - 1] != s.line_piece[j]);
    *reinterpret_cast<LocatedKey*>(job.replies + s.reply_at + s.sum[k]) = {
        .location = s.key_location[k],
        .at = static_cast<std::uint16_t>(s.key_at[k] - first_byte(s.piece[s.line_piece[j]])),
        .key_bytes = s.key_bytes[k],
        .kind = static_cast<std::uint8_t>(command_of(s.line_kind[j]) | (is_last ? LocatedKey::last_of_line : 0u) |
                                          (is_first ? 0u : LocatedKey::continues) |
                                          (is_first && !is_last ? LocatedKey::begins_many : 0u) |
                                          (is_behind_gap ? LocatedKey::behind_gap : 0u))};
  });
}

// Takes room for what the tile has to tell.
template <class T>
TD_LANE void take_room(T& t, Scratch& s, const Job& job, std::uint32_t runs, std::uint32_t reads, std::uint32_t total) {
  const std::uint32_t bytes = (total + frame_unit_bytes - 1) / frame_unit_bytes * frame_unit_bytes;
  s.run_at = t.take(&job.cursors->runs, runs);
  s.miss_at = t.take(&job.cursors->misses, s.misses);
  s.read_at = t.take(&job.cursors->reads, reads);
  s.reply_at = t.take(&job.cursors->replies, bytes);
  const auto fits = [](std::uint32_t at, std::uint32_t n, std::uint32_t most) { return at <= most && n <= most - at; };
  s.fits = fits(s.run_at, runs, job.runs_max) && fits(s.miss_at, s.misses, job.misses_max) &&
                   fits(s.read_at, reads, job.reads_max) && fits(s.reply_at, bytes, job.reply_bytes_max)
               ? 1
               : 0;
}

template <Form form, class T>
TD_LANE void answer_tile_of(T& t, Scratch& s, const Job& job, const FrameRules& rules, std::uint32_t number,
                            const FrameTile& tile) {
  t.each(frame_left_count, [&](std::uint32_t i) { s.left[i] = 0; });
  t.once([&] { s.misses = s.metas = s.good = s.good_keys = 0; });
  std::uint32_t lines = 0;
  if constexpr (form == Form::raw) {
    lines = find_frames(t, s, job, tile);
  } else {
    lines = find_lines(t, s, job, tile);
    t.each(lines, [&](std::uint32_t j) { begin_line<form>(s, j); });
  }
  list_keys(t, s, lines);
  look_up<form>(t, s, job, rules, lines);
  std::uint32_t total = 0;
  if constexpr (form == Form::located) {
    total = measure_located(t, s);
  } else {
    total = measure<form>(t, s, job, lines);
  }
  const std::uint32_t reads = t.scan(s.key_rank, s.keys);
  t.each(lines, [&](std::uint32_t j) {
    s.line_rank[j] = begins_run<form>(s, j) ? 1 : 0;
    if (is_good(s, j)) {
      t.add(&s.good, 1);
      t.add(&s.good_keys, s.line_keys[j]);
      if (is_meta(s.line_kind[j])) t.add(&s.metas, 1);
    } else if (s.line_state[j] != mark::foreign) {
      t.add(&s.left[s.line_state[j] - 1], 1);
    }
  });
  const std::uint32_t runs = t.scan(s.line_rank, lines);
  t.each(lines, [&](std::uint32_t j) {
    if (begins_run<form>(s, j)) {
      s.run_line[s.line_rank[j]] = static_cast<std::uint16_t>(j);
    } else if (is_of_run<form>(s, j)) {
      --s.line_rank[j];  // of its own run
    }
  });
  t.once([&] { take_room(t, s, job, runs, reads, total); });
  if (s.fits != 0) {
    t.each(lines, [&](std::uint32_t j) {
      if (ends_run<form>(s, j, lines)) job.runs[s.run_at + s.line_rank[j]] = run_of<form>(s, s.line_rank[j], j, total);
    });
    t.each(s.keys, [&](std::uint32_t k) {
      if (s.key_mark[k] == mark::first_read) job.reads[s.read_at + s.key_rank[k]] = s.key_location[k];
      s.key_rank[k] = s.key_mark[k] == mark::miss ? 1 : 0;
    });
    if (s.misses != 0) {
      t.scan(s.key_rank, s.keys);
      t.each(s.keys, [&](std::uint32_t k) {
        if (s.key_mark[k] == mark::miss) job.misses[s.miss_at + s.key_rank[k]] = miss_of(s, k);
      });
    }
    if constexpr (form == Form::raw) {
      write_frames(t, s, job, lines, total);
    } else if constexpr (form == Form::located) {
      write_locations(t, s, job);
    } else {
      write_replies(t, s, job, total);
    }
  }
  t.once([&] {
    FrameTileAnswer a{};
    for (std::uint32_t i = 0; i < frame_left_count; ++i) a.left[i] = static_cast<std::uint16_t>(s.left[i]);
    constexpr auto room = static_cast<std::uint32_t>(FrameLeft::room);
    if (s.fits != 0) {
      a.run_at = s.run_at;
      a.miss_at = s.miss_at;
      a.read_at = s.read_at;
      a.runs = static_cast<std::uint16_t>(runs);
      a.misses = static_cast<std::uint16_t>(s.misses);
      a.reads = static_cast<std::uint16_t>(reads);
      a.keys = static_cast<std::uint16_t>(s.good_keys);
    } else {
      a.left[room] = static_cast<std::uint16_t>(a.left[room] + s.good);
    }
    job.answers[number] = a;
  });
}

// What a launch's tiles may be. A GPU has a kernel of its own for each, with registers for that alone.
enum class Forms : std::uint8_t { lines, lines_and_raw, located };

template <Forms forms, class T>
TD_LANE void answer_tile(T& t, Scratch& s, const Job& job, const FrameRules& rules, std::uint32_t number) {
  const FrameTile tile = job.tiles[number];
  if constexpr (forms == Forms::located) {
    // The host receives no raw frames where it answers itself.
    if (!tile.is_raw) return answer_tile_of<Form::located>(t, s, job, rules, number, tile);
    t.once([&] { job.answers[number] = FrameTileAnswer{}; });
  } else if (forms == Forms::lines_and_raw && tile.is_raw) {
    answer_tile_of<Form::raw>(t, s, job, rules, number, tile);
  } else {
    answer_tile_of<Form::lines>(t, s, job, rules, number, tile);
  }
}

}  // namespace tandem::frames
