"""What pyproject.toml cannot say: the URLs of the project are of the repository that builds it."""

from os import environ

from setuptools import setup

PAGES = {
    "Repository": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Documentation": "/tree/main/docs",
}

url = environ.get("PROJECT_URL")
setup(project_urls={name: url + page for name, page in PAGES.items()} if url else {})
