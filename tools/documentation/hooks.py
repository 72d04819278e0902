"""MkDocs hooks: pages that are made when the site is built, and links that leave `docs/`.

The home page is the README, and the reference pages come from the code, so that neither can differ from what
is installed. Nothing of it is written to `docs/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.documentation.command_pages import write_command_page
from tools.documentation.links import PAGES, ROOT, PageLinks, list_folder
from tools.documentation.python_pages import (
    write_accessor_page,
    write_atlas_page,
    write_client_page,
    write_error_page,
    write_function_page,
)
from tools.documentation.rest_pages import write_openapi, write_rest_page
from tools.documentation.spec_pages import write_schema, write_spec_page

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

# Pages of the site by their path below docs/.
COPIED_PAGES = {page: source for source, page in PAGES.items()}
WRITTEN_PAGES: dict[str, Callable[[], str]] = {
    "reference/functions.md": write_function_page,
    "reference/client.md": write_client_page,
    "reference/accessor.md": write_accessor_page,
    "reference/atlas.md": write_atlas_page,
    "reference/errors.md": write_error_page,
    "reference/commands.md": write_command_page,
    "reference/rest-routes.md": write_rest_page,
    "reference/spec-fields.md": write_spec_page,
    "decisions/index.md": lambda: list_folder("docs/decisions", "Design decisions"),
}
WRITTEN_FILES: dict[str, Callable[[], str]] = {
    "reference/openapi.json": write_openapi,
    "reference/spec.schema.json": write_schema,
}
MERMAID = "assets/vendor/mermaid.js"  # 2.5 MB, so only where there is a diagram

LINKS = PageLinks()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the files of the repository that pages link to."""
    from mkdocs.structure.files import File

    for path, source in COPIED_PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, path, content=LINKS.rewrite(text, source, path)))
    for path, write in (WRITTEN_PAGES | WRITTEN_FILES).items():
        files.append(File.generated(config, path, content=write()))
    for path in LINKS.find_linked_files():
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links of pages in docs/ that leave it lead to copies of these files."""
    path = page.file.src_uri
    return markdown if path in COPIED_PAGES else LINKS.rewrite(markdown, f"docs/{path}", path)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Load the library of diagrams on the pages that have one."""
    if 'class="mermaid"' not in html:
        return html
    script = "../" * page.url.count("/") + MERMAID
    return f'{html}\n<script src="{script}"></script>'
