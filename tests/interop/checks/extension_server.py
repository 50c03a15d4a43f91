"""A server of FastMCP with the extensions for skills and for apps.

usage: extension_server.py NAME DIRECTORY, which has the skills
"""

import sys

from fastmcp import FastMCP
from fastmcp.apps import AppConfig
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

name, directory = sys.argv[1:]
VIEW = f"ui://{name}/view.html"
server = FastMCP(name)
skills = SkillsDirectoryProvider(directory, experimental_skills=True)
server.add_provider(skills)
server.add_extension(SkillsExtension(providers=[skills]))


@server.tool(app=AppConfig(resource_uri=VIEW))
def show(text: str) -> str:
    return f"shown: {text}"


@server.resource(VIEW, app=AppConfig(prefers_border=True))
def view() -> str:
    return "<!doctype html><title>ä</title>"


server.run("stdio", show_banner=False)
