"""Equations become MathML when the site is built: the pages need no script and no fonts for them."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
TAG = re.compile(r"\\tag\{(.*?)\}")


def _block(found: re.Match[str]) -> str:
    latex = html.unescape(found.group(1)).strip()
    number = TAG.search(latex)
    equation = convert(TAG.sub("", latex).replace("\n", " "), display="block")
    label = f'<span class="number">({number.group(1)})</span>' if number else ""
    return f'<div class="equation">{equation}{label}</div>'


def _inline(found: re.Match[str]) -> str:
    return convert(html.unescape(found.group(1)))


def on_page_content(content: str, **_) -> str:
    return INLINE.sub(_inline, BLOCK.sub(_block, content))
