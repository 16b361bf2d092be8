// Target regions: code between TD_TARGET_BEGIN(...) and TD_TARGET_END may use the named instructions, and its functions
// can be inlined only into functions that may use them, too. Standard headers are included before a region, so that
// their inline functions are not compiled for instructions that the rest of the program must not use (the linker keeps
// one copy of each).
#pragma once

#define TD_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define TD_TARGET_BEGIN(isa) TD_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define TD_TARGET_END TD_PRAGMA(clang attribute pop)
#else
#define TD_TARGET_BEGIN(isa) TD_PRAGMA(GCC push_options) TD_PRAGMA(GCC target(isa))
#define TD_TARGET_END TD_PRAGMA(GCC pop_options)
#endif
