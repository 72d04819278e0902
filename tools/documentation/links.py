"""Links of pages: those that leave `docs/` lead to copies of the files within the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
# Files of the repository that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SUPPORT.md": "support.md",
}


class PageLinks:
    """Rewrites links of pages from places in the repository to places in the site."""

    def rewrite(self, text: str, source: str, page: str) -> str:
        """Return the text of a page with its links.

        Parameters
        ----------
        text
            Markdown, in which code blocks stay as they are.
        source
            Path of the text in the repository, to which its links are relative.
        page
            Path of the page below `docs/`, to which they shall be relative.
        """
        parts = FENCE.split(text)
        parts[::2] = [self._rewrite_prose(part, source, page) for part in parts[::2]]
        return "".join(parts)

    def _rewrite_prose(self, text: str, source: str, page: str) -> str:
        def replace(match: re.Match[str]) -> str:
            opening, target, anchor, closing = match.groups("")
            if "://" in target or target.startswith(("mailto:", "/")):
                return match[0]
            place = find_in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
            return f"{opening}{posixpath.relpath(place, posixpath.dirname(page) or '.')}{anchor}{closing}"

        return LINK.sub(replace, text)

    def find_linked_files(self) -> list[str]:
        """Return the files outside `docs/` that pages link to, relative to the repository."""
        found = set()
        for page in (ROOT / "docs").rglob("*.md"):
            found |= self._find_linked_from(page)
        for name in PAGES:
            found |= self._find_linked_from(ROOT / name)
        return sorted(found)

    def _find_linked_from(self, page: Path) -> set[str]:
        folder = page.parent.relative_to(ROOT).as_posix()
        text = "".join(FENCE.split(page.read_text("utf-8"))[::2])
        targets = [match[2] for match in LINK.finditer(text) if "://" not in match[2]]
        paths = {posixpath.normpath(posixpath.join(folder, target)) for target in targets}
        outside = {path for path in paths if not path.startswith("docs") and path not in PAGES}
        files = {path for path in outside if (ROOT / path).is_file()}
        for path in outside - files:
            files |= {file.relative_to(ROOT).as_posix() for file in (ROOT / path).glob("*") if file.is_file()}
        return files


def find_in_site(path: str) -> str:
    """Return the path below `docs/` at which the site has a file or a folder of the repository."""
    if path in PAGES:
        return PAGES[path]
    if (ROOT / path).is_dir():
        path = f"{path}/{find_entry(path)}"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def find_entry(folder: str) -> str:
    """Return the file that stands for a folder: its index, or the first of its files."""
    if (ROOT / folder / "README.md").exists():
        return "README.md"
    if folder == "docs/decisions":
        return "index.md"  # written by the hooks
    return min(file.name for file in (ROOT / folder).iterdir() if file.is_file())


def list_folder(folder: str, title: str) -> str:
    """Return a page that lists the pages of a folder by their titles."""
    lines = [f"# {title}", ""]
    for file in sorted((ROOT / folder).glob("*.md")):
        heading = file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{heading}]({file.name})")
    return "\n".join(lines) + "\n"
