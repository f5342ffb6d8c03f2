"""The documentation quotes files as they are."""

from docs import quote


def test_all_quotes_are_fresh(capsys):
    assert len(quote.documents()) >= 3
    assert quote.main(["--check"]) == 0, capsys.readouterr().err
