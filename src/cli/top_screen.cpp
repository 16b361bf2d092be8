#include "cli/top_screen.hpp"

#include <ncurses.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "options/options.hpp"

namespace tandem::cli {

TopScreen::TopScreen() {
  // newterm() instead of initscr(), which ends the program for an unknown terminal.
  if (isatty(STDOUT_FILENO) == 0 || newterm(nullptr, stdout, stdin) == nullptr)
    throw CommandError(EX_USAGE, "top: no terminal that can be used; --once prints plain text");
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, true);
}

TopScreen::~TopScreen() { endwin(); }

monitor::TopSize TopScreen::size() const { return {.rows = LINES - 1, .columns = COLS}; }

void TopScreen::show(const std::vector<monitor::TopLine>& lines) {
  erase();
  int y = 0;
  for (const monitor::TopLine& line : lines) {
    if (y == LINES - 1) break;
    if (line.heading) attron(A_BOLD);
    mvaddnstr(y++, 0, line.text.c_str(), COLS);
    if (line.heading) attroff(A_BOLD);
  }
  attron(A_DIM);
  mvaddnstr(LINES - 1, 0, "q: quit", COLS);
  attroff(A_DIM);
  refresh();
}

bool TopScreen::wait(int milliseconds) {
  timeout(milliseconds);
  const int key = getch();
  return key != 'q' && key != 'Q' && key != 27;
}

}  // namespace tandem::cli
