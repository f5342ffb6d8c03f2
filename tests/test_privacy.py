"""What a report tells of who ran it, and where: nothing."""

import sys

import pytest

from fastdl._cli.privacy import anonymous


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"C:\Users\John Smith\x.py", r"~\x.py"),
        (r"'C:\\Users\\John Smith\\x.py'", r"'~\\x.py'"),  # as repr writes it
        ("C:/Users/John Smith/x.py", "~/x.py"),
        ("/Users/John Smith/x.py", "~/x.py"),
        ("/home/bob/x.py", "~/x.py"),
        ("no '/home/bob' here", "no '~' here"),
        ("/home/bob and /opt/lib", "~ and /opt/lib"),
        ("/home/bob /home/Jo Ann/x", "~ ~/x"),
    ],
)
def test_home_folders_of_others(text, expected):
    assert anonymous(text) == expected


def test_a_home_folder_ends_before_another_folder(monkeypatch):
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert anonymous("/home/bob and /usr/lib") == "~ and <python>/lib"


@pytest.mark.parametrize("home", [r"D:\Staff\John Smith", "/srv/staff/John Smith"])
def test_each_spelling_of_the_own_home_folder(home, monkeypatch):
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("USERPROFILE", home)
    for spelling in (home, repr(home)[1:-1], home.replace("\\", "/")):
        assert anonymous(f"no {spelling}/x.py") == "no ~/x.py"
