"""What a page shows, by selectors."""

from __future__ import annotations

from selenium import webdriver


def text_of(browser: webdriver.Chrome, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def count_of(browser: webdriver.Chrome, selector: str) -> int:
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)
