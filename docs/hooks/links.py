"""Pages may link to any file of the repository: what they link to becomes a part of the site, under files/.

The README is the first page. A file of code becomes a page that shows it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parent.parent.parent
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PICTURES = (".png", ".gif", ".svg")
LANGUAGES = {".py": "python", ".mjs": "javascript", ".toml": "toml", ".html": "html", ".json": "json", ".cff": "yaml"}


def repository_path(uri: str) -> str:
    """Return the file of the repository that a page of the site shows."""
    if uri == "index.md":
        return "README.md"
    if uri.startswith("files/"):
        inner = uri.removeprefix("files/")
        return inner if (ROOT / inner).is_file() else inner.removesuffix(".md")
    return f"docs/{uri}"


def site_uri(path: str) -> str:
    """Return the page of the site that shows a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if path.endswith((".md", *PICTURES)) else f"files/{path}.md"


def _resolved(uri: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(repository_path(uri)), link))


def _outside_fences(text: str, change) -> str:
    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence.group()]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


def shown(path: str) -> str | None:
    """Return the Markdown of a linked file; None for a picture."""
    if path.endswith(PICTURES):
        return None
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    name, language = path.rpartition("/")[2], LANGUAGES.get(Path(path).suffix, "text")
    return f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n# {name}\n\n`{path}`\n\n````{language}\n{text}\n````\n"


def on_files(files: Files, config) -> Files:
    readme = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=f"---\nhide: [navigation]\n---\n{readme}"))
    waiting = [file for file in files if file.src_uri.endswith(".md")]
    waiting.append(_add(files, config, "CONTRIBUTING.md"))
    while waiting:
        page = waiting.pop()
        for link in LINK.findall(FENCE.sub("", page.content_string)):
            path = _resolved(page.src_uri, link)
            if files.get_file_from_path(site_uri(path)) is None and (ROOT / path).is_file():
                waiting += [added for added in [_add(files, config, path)] if added.src_uri.endswith(".md")]
    return files


def _add(files: Files, config, path: str) -> File:
    content = shown(path)
    if content is None:
        file = File.generated(config, site_uri(path), abs_src_path=str(ROOT / path))
    else:
        file = File.generated(config, site_uri(path), content=content)
    file.inclusion = InclusionLevel.NOT_IN_NAV
    files.append(file)
    return file


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    uri = page.file.src_uri
    if uri != "index.md" and not (ROOT / repository_path(uri)).is_file():
        return markdown  # a generated page, whose links are the site's already

    def rewrite(text: str) -> str:
        return LINK.sub(lambda found: _relative(uri, found.group(1)), text)

    return _outside_fences(markdown, rewrite)


def _relative(uri: str, link: str) -> str:
    target = site_uri(_resolved(uri, link))
    return posixpath.relpath(target, posixpath.dirname(uri) or ".")
