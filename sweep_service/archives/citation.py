"""What to cite with an archive: this software, and the two papers whose theory it computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, as in CITATION.cff."""

    key: str
    authors: tuple[str, ...]  # family names first
    title: str
    venue: str
    series: str
    volume: int
    pages: tuple[int, int]
    year: int
    arxiv: str

    @property
    def url(self) -> str:
        return f"https://arxiv.org/abs/{self.arxiv}"

    @property
    def reference(self) -> str:
        """The paper in one line of text."""
        names = [
            f"{given[0]}. {family}" for family, _, given in (name.partition(", ") for name in self.authors)
        ]
        return f"{', '.join(names)}: {self.title}. {self.venue}, arXiv:{self.arxiv}"

    @property
    def bibtex(self) -> str:
        fields = {
            "author": " and ".join(self.authors),
            "title": f"{{{self.title}}}",
            "booktitle": self.venue,
            "series": self.series,
            "volume": str(self.volume),
            "pages": "--".join(map(str, self.pages)),
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv",
        }
        return _format_bibtex("inproceedings", self.key, fields)


PAPERS = (
    Paper(
        key="arnaboldi2023",
        authors=("Arnaboldi, Luca", "Stephan, Ludovic", "Krzakala, Florent", "Loureiro, Bruno"),
        title="From high-dimensional & mean-field dynamics to dimensionless ODEs: A unifying approach to SGD "
        "in two-layers networks",
        venue="Thirty Sixth Conference on Learning Theory (COLT 2023)",
        series="Proceedings of Machine Learning Research",
        volume=195,
        pages=(1199, 1227),
        year=2023,
        arxiv="2302.05882",
    ),
    Paper(
        key="veiga2022",
        authors=(
            "Veiga, Rodrigo", "Stephan, Ludovic", "Loureiro, Bruno", "Krzakala, Florent",
            "Zdeborová, Lenka",
        ),
        title="Phase diagram of Stochastic Gradient Descent in high-dimensional two-layer neural networks",
        venue="Conference on Neural Information Processing Systems (NeurIPS 2022)",
        series="Advances in Neural Information Processing Systems",
        volume=35,
        pages=(23244, 23255),
        year=2022,
        arxiv="2202.00293",
    ),
)  # fmt: skip
SOFTWARE = "sweep-service"
SOFTWARE_AUTHOR = "The sweep-service developers"
SOFTWARE_LICENSE = "https://spdx.org/licenses/MIT"


def format_bibliography(title: str, authors: tuple[str, ...], date: str, versions: tuple[str, ...]) -> str:
    """Return the BibTeX entries of an archive, of the software and of the papers."""
    year = date[:4]
    dataset = {"title": f"{{{title}}}", "year": year}
    if authors:
        dataset = {"author": " and ".join(f"{{{name}}}" for name in authors), **dataset}
    software = {"author": f"{{{SOFTWARE_AUTHOR}}}", "title": SOFTWARE, "version": ", ".join(versions)}
    entries = [
        _format_bibtex("misc", "dataset", dataset),
        _format_bibtex("misc", "sweepservice", {**software, "year": year}),
        *(paper.bibtex for paper in PAPERS),
    ]
    return "\n".join(entries)


def _format_bibtex(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{_escape(value)}}},\n" for name, value in fields.items()]
    return f"@{kind}{{{key},\n{''.join(lines)}}}\n"


def _escape(text: str) -> str:
    """Escape what BibTeX hands to LaTeX as a command; braces are left, as titles are in them."""
    return "".join(f"\\{character}" if character in "&%$#_" else character for character in text)
