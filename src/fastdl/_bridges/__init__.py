"""Bridges: exchange tables for libraries that publish none, and facts about the others."""
