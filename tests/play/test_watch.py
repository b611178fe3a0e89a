"""Films: GIF, MP4 and text show what was played."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from macop_aht.cli import demo, main
from macop_aht.play import watch
from macop_aht.play.choices import offer
from macop_aht.scenarios.drawing import HEADER, WIDTH


def moments(scenario="LBF4", episodes=1, teammate="scripted:corner-se"):
    choice = replace(offer(scenario).default(), teammate=teammate, person=False)
    return list(watch.frames(scenario, choice, episodes, seed=0))


def test_frames_are_those_of_the_episodes():
    found = moments(episodes=2)
    ends = [frame for frame in found if frame.over]
    assert len(ends) == 2
    assert ends[-1] is found[-1]
    first = found[: found.index(ends[0]) + 1]
    assert len(first) == len(first[-1].trails[0]) == int(ends[0].caption.split()[1].split("/")[0]) + 1
    assert len(found[len(first)].trails[0]) == 1  # every episode has trails of its own


def test_gif(tmp_path, capsys):
    path = tmp_path / "film.gif"
    words = [
        "watch",
        "LBF4",
        "--agent=macop/LBF4",
        "--teammate=scripted:corner-se",
        f"--out={path}",
        "--beliefs",
        "--trails",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    with Image.open(path) as film:
        assert f"{film.n_frames} frames" in told
        assert film.size == (WIDTH + watch.PANEL, WIDTH + HEADER)
        assert film.n_frames > 3
        film.seek(film.n_frames - 1)
        assert film.info["duration"] >= 1000


def test_beliefs_are_a_picture_beside_the_other():
    frame = moments()[-1]
    plain, trailed, told = watch.picture(frame), watch.picture(frame, trails=True), watch.picture(frame, beliefs=True)
    assert not np.array_equal(plain, trailed)
    np.testing.assert_array_equal(told[:, :WIDTH], plain)
    sure = replace(frame.mind, bars=(replace(frame.mind.bars[0], value=1.0),))
    full = watch.picture(replace(frame, mind=sure), beliefs=True)
    assert 0 < blue(told) < (watch.PANEL - 32) * 8
    assert blue(full) == pytest.approx((watch.PANEL - 32) * 8, rel=0.1)


def blue(picture):
    """The pixels of the bars."""
    return (np.abs(picture[:, WIDTH:].astype(int) - (0x25, 0x63, 0xEB)).max(axis=-1) < 12).sum()


def test_mp4(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path, found = tmp_path / "film.mp4", moments("CN2", teammate="scripted:landmark-0")
    count = watch.film(path, ((watch.picture(frame), frame.over) for frame in found), fps=5)
    assert count == len(found)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == count + 5  # the end stays for a second
    assert seconds == pytest.approx(frames / 5, rel=0.1)


def test_text(capsys):
    assert main(["watch", "LBF4", "--teammate=scripted:corner-se", "--terminal", "--beliefs"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out  # no codes where no terminal reads them
    assert out.count("with scripted:corner-se") == out.count("return 0.00") + out.count("return 1.00")
    assert "group 0/0" in out


def test_a_terminal_gets_colours_and_one_frame_at_a_time(monkeypatch):
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: None)
    stream = io.StringIO()
    stream.isatty = lambda: True
    found = moments()
    assert watch.show(found, 5, out=stream) == len(found)
    assert stream.getvalue().count(watch.CLEAR) == len(found)
    assert "\x1b[1;38;2;37;99;235m0\x1b[0m" in stream.getvalue()
    edges = [line for line in watch.text(found[0], coloured=True).split("\n") if set(line) == {"-"}]
    assert {len(edge) for edge in edges} == {6 * 2 - 1 + 2}


def test_mistakes(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["watch", "LBF4", "--out", str(tmp_path / "film.avi")])
    assert "ends neither in .gif nor in .mp4" in capsys.readouterr().err
    assert main(["watch", "LBF4", "--teammate=scripted:corner-xx", f"--out={tmp_path / 'a.gif'}"]) == 2
    assert "did you mean" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4"):
        watch.film(tmp_path / "film.avi", [], 5)


def test_the_demonstration_shows_four_meetings(tmp_path):
    returns = demo.meetings(tmp_path / "four.png")
    assert len(returns) == 4
    with Image.open(tmp_path / "four.png") as picture:
        assert picture.size == (2 * WIDTH, 2 * (WIDTH + HEADER))
