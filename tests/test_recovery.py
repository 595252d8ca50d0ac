"""What does not fit into memory_limit, lies damaged or was removed by hand: it stops nothing, or it is said."""

import logging
import random
import shutil
from pathlib import Path

import pytest

from ingestion.errors import ConfigurationError
from resources.load import load_all
from resources.warehouse import Warehouse
from tests.scripted import KINDS, document, owning
from tests.support import Site


def test_long_documents_close_together_are_loaded_with_more_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path)
    site.warehouse = Warehouse(data=str(tmp_path), memory_limit="24MB")
    chance = random.Random(1)  # noqa: S311 -- text that does not compress, the same in every run
    texts = {f"r{number}": chance.randbytes(1_000_000).hex() for number in range(24)}
    for name, text in texts.items():
        site.upstream.put(name, owning(document(name, text)))
    site.fetch()
    with site.warehouse.locked("a test"), caplog.at_level(logging.WARNING):
        loaded = load_all(site.warehouse, site.raw_log, KINDS)
        with site.warehouse.connect(is_generous=True) as connection:
            live = dict(connection.execute("SELECT source_id, content FROM documents").fetchall())
    assert "memory_limit 24MB is too little" in caplog.text
    assert sum(one.created_count for one in loaded) == 24
    assert live == texts


def test_a_damaged_snapshot_is_passed_over_by_a_fetch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path)
    for name in ("a", "b", "c"):
        site.upstream.put(name)
    site.census()
    snapshot = site.publish()
    assert snapshot is not None
    snapshot.write_bytes(b"not a database")
    site.upstream.delete("b")
    fetched = site.fetch(take_census=True)
    assert fetched.census is not None
    assert (fetched.census.live_count, fetched.census.gone_count) == (2, 1)
    assert "cannot be read, taking the raw log instead" in caplog.text


def test_an_emptied_log_is_noticed_and_never_written_over(tmp_path: Path) -> None:
    """Its new batches would bear the numbers of old ones, and be taken for loaded."""
    site = Site(tmp_path)
    for name in ("a", "b", "c"):
        site.upstream.put(name)
    site.census()
    site.publish()
    shutil.rmtree(tmp_path / "raw")
    first = site.fetch(max_pages=1)
    assert first.records_count == 3
    log = site.raw_log.scope("source", "scope")
    assert site.fetch().is_caught_up
    assert [batch.records_count for batch in log.after(0)] == [3, 0]
    with pytest.raises(ConfigurationError, match="lacks batch 2 as it was loaded: put it back"):
        site.load()
    site.replay()
    assert set(site.live()) == {"a", "b", "c"}


def test_views_and_descriptions_follow_the_program(tmp_path: Path) -> None:
    """A new release changes a view: the next load brings it, without a replay."""
    site = Site(tmp_path)
    site.upstream.put("a")
    site.sync()
    site.connection.execute("CREATE OR REPLACE VIEW documents AS SELECT 'of an older release' AS content")
    site.connection.execute("UPDATE warehouse SET definition_hash = 'of an older release'")
    site.close()
    assert set(site.live()) == {"a"}
    comments = "SELECT comment FROM duckdb_columns() WHERE table_name = 'documents' AND column_name = 'title'"
    assert site.query(comments) == [("One line that names the document.",)]
