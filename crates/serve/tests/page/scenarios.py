"""What people do with the page. Each function is one visit; its name is what the report calls it."""

import shutil
import subprocess
from pathlib import Path

from playwright.sync_api import expect

from harness import PATIENCE

HOSTILE = "<img src=x onerror=\"window.owned=1\">\u202egpj.&amp;'${1}`%0a.mp4"


def meet(page, address, act):
    """Acts in place of the server on what is sent to an address. What is only read passes."""
    page.route(address, lambda route: act(route) if route.request.method == "POST" else route.continue_())


class Film:
    """Rows and views of the page, by what a person reads there."""

    def __init__(self, look):
        self.look = look
        self.page = look.page

    def row(self, name):
        return self.page.locator("#films li").filter(has=self.page.locator("bdi", has_text=name))

    def button(self, text):
        return self.page.get_by_role("button", name=text, exact=True)

    def fact(self, term):
        return self.page.locator("main .facts > div").filter(has=self.page.locator("dt", has_text=term)).locator("dd")

    def set_up(self, file):
        """From the drop to the settings, with the cost known."""
        self.look.go()
        expect(self.page.locator(".add")).to_be_visible()
        self.look.drop(file)
        expect(self.page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
        self.planned()

    def planned(self):
        expect(self.page.locator(".cost[aria-busy]")).to_have_count(0, timeout=60_000)
        expect(self.fact("Memory")).to_contain_text("iB", timeout=60_000)

    def start(self, file, size="2×"):
        self.set_up(file)
        self.button(size).click()
        self.planned()
        self.button("Start").click()
        expect(self.page.locator(".film")).to_be_visible()
        return self.page.url.split("id=")[1]

    def done(self, name):
        expect(self.row(name).locator(".state")).to_have_text("Done", timeout=PATIENCE)


def first_film(look, files, server):
    """From the drop to the download."""
    film, page = Film(look), look.page
    expect(page.get_by_role("heading", name="Drop a film anywhere on this page")).to_be_visible()
    look.state("empty")
    film.set_up(files["clip"])
    look.state("set-up")
    before = film.fact("Memory").inner_text()
    film.button("2160p").click()
    expect(film.fact("Result")).to_contain_text("2160", timeout=60_000)
    assert film.fact("Memory").inner_text() != before, "another size costs the same"
    film.button("2×").click()
    film.planned()
    page.get_by_text("More settings").click()
    look.state("more-settings")
    page.get_by_text("More settings").click()
    preview(look, film)
    film.button("Start").click()
    expect(page.locator(".newest img")).to_be_visible(timeout=PATIENCE)
    expect(film.fact("Memory")).to_contain_text("planned")
    look.state("running")
    film.done("clip.mp4")
    result(look, film, server)


def preview(look, film):
    page = look.page
    film.button("Restore this frame").click()
    expect(page.get_by_text("so far")).to_be_visible()
    expect(page.locator("[data-mode=split] .after img")).to_be_visible(timeout=PATIENCE)
    look.state("preview")
    divider = page.get_by_role("slider", name="Divider between before and after")
    divider.focus()
    page.keyboard.press("ArrowRight")
    expect(divider).to_have_attribute("aria-valuenow", "52")
    box = page.locator(".stage:visible").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(divider).to_have_attribute("aria-valuenow", "25")
    page.get_by_text("More settings").click()
    page.get_by_label("Strength").fill("0.5")
    expect(page.get_by_text("Made with other settings.")).to_be_visible()
    page.get_by_label("Strength").fill("1")
    page.get_by_text("More settings").click()


def result(look, film, server):
    page = look.page
    after = page.locator(".result .after img")
    expect(after).to_be_visible(timeout=60_000)
    look.state("result")
    film.button("Side by side").click()
    look.state("result-side-by-side")
    stage = page.locator(".result .stage")
    stage.focus()
    # As with Caps Lock.
    page.keyboard.press("D")
    expect(film.button("Divider")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("1")
    expect(page.locator(".tools output")).to_have_text("100%")
    look.state("result-1-to-1")
    page.keyboard.press("0")
    reading = page.locator(".timeline .reading")
    at = int(reading.inner_text().split()[1])
    page.keyboard.press("ArrowRight")
    expect(reading).to_contain_text(f"frame {at + 1} of")
    expect(after).to_have_attribute("alt", f"Frame {at + 1}, after", timeout=60_000)
    expect(page.locator(".result .before img")).to_have_attribute("alt", f"Frame {at + 1}, before")
    film.button("Play").click()
    page.wait_for_function("() => document.querySelector('video')?.readyState >= 2 || !document.querySelector('video')", timeout=60_000)
    if page.locator("video").count():
        film.button("Back to frames").click()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download").click()
    name = [each for each in server.get("/v1/predictions")["results"] if each["name"] == "clip.mp4"][0]
    got = Path(waiting.value.path()).read_bytes()
    assert got == Path(name["file"]).read_bytes(), "the download is not the file on the disk"
    assert waiting.value.suggested_filename == name["output_name"], waiting.value.suggested_filename
    expect(film.fact("On the server")).to_contain_text(name["file"])


def queue(look, files, server):
    """Order, pause, resume, cancel, try again, remove."""
    film, page = Film(look), look.page
    film.start(files["long"], "4×")
    for name in ("one", "two", "three"):
        film.start(files[name])
    names = page.locator("#films .queue bdi")
    expect(names).to_have_text(["long.mp4", "one.mp4", "two.mp4", "three.mp4"])
    expect(film.row("two.mp4").locator(".state")).to_have_text("2nd in line")
    expect(film.row("three.mp4").locator("a")).to_have_attribute("aria-current", "page")
    look.state("queue-film")
    look.go()
    expect(page.locator("#films [aria-current]")).to_have_count(0)
    look.state("queue")
    page.get_by_role("button", name="Move three.mp4 up").click()
    expect(names).to_have_text(["long.mp4", "one.mp4", "three.mp4", "two.mp4"])
    page.get_by_role("button", name="Move three.mp4 up").click()
    expect(names).to_have_text(["long.mp4", "three.mp4", "one.mp4", "two.mp4"])
    expect(page.get_by_role("button", name="Move three.mp4 down")).to_be_focused()
    film.row("one.mp4").locator("a").focus()
    page.keyboard.press("Alt+ArrowDown")
    expect(names).to_have_text(["long.mp4", "three.mp4", "two.mp4", "one.mp4"])
    page.get_by_role("button", name="Pause long.mp4").click()
    expect(film.row("long.mp4").locator(".state")).to_have_text("Paused")
    film.row("long.mp4").locator("a").click()
    look.state("paused")
    page.locator("#films").get_by_role("button", name="Resume long.mp4").click()
    expect(page.locator("#films").get_by_role("button", name="Pause long.mp4")).to_be_visible()
    page.get_by_role("button", name="Cancel two.mp4").click()
    expect(film.row("two.mp4").locator(".state")).to_have_text("Canceled")
    film.row("two.mp4").locator("a").click()
    look.state("canceled")
    page.locator("#films").get_by_role("button", name="Cancel long.mp4").click()
    expect(film.row("long.mp4").locator(".state")).to_have_text("Canceled")
    page.locator("#films").get_by_role("button", name="Try again two.mp4").click()
    for name in ("three.mp4", "one.mp4", "two.mp4"):
        film.done(name)
    remove(look, film, server)


def remove(look, film, server):
    page = look.page
    gone = [each for each in server.get("/v1/predictions")["results"] if each["name"] == "one.mp4"][0]
    look.go()
    film.page.get_by_role("button", name="Remove one.mp4").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    look.state("delete")
    page.keyboard.press("Escape")
    expect(film.row("one.mp4")).to_have_count(1)
    page.get_by_role("button", name="Remove one.mp4").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(film.row("one.mp4")).to_have_count(0)
    assert not Path(gone["file"]).exists(), "the result is still on the disk"
    # It was canceled, and what was saved of it is kept.
    page.locator(".finished").get_by_role("button", name="Remove long.mp4").click()
    expect(page.get_by_role("dialog")).to_contain_text("What is saved of it, ")
    look.state("delete-unfinished")
    page.get_by_role("button", name="Delete", exact=True).click()
    # The upload of a film without a result can be started again.
    page.locator(".ready").get_by_role("button", name="Remove long.mp4").click()
    expect(film.row("long.mp4")).to_have_count(0)
    film.row("three.mp4").locator("a").click()
    page.locator("main").get_by_role("button", name="Remove three.mp4").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="This film is not here")).to_be_focused()
    link = page.locator("main").get_by_role("link", name="Add a film")
    link.focus()
    page.evaluate("() => import('/assets/state.js').then((state) => state.changed())")
    page.wait_for_timeout(300)
    expect(link).to_be_focused()


def shared(look, files, server):
    """An upload stays while another film is made of it, also one that knows the server by another name."""
    film, page = Film(look), look.page
    cut = files["clip"].with_name("shared.mp4")
    shutil.copy(files["one"], cut)
    media = server.get(f"/v1/predictions/{film.start(cut)}")["input"]["media"]
    film.done("shared.mp4")
    again = {"version": "anime", "input": {"media": media.replace("127.0.0.1", "localhost")}}
    other = server.post("/v1/predictions", again)["id"]
    server.post(f"/v1/predictions/{other}/cancel")
    look.go()
    row = page.locator("#films li[data-status=succeeded]").filter(has=page.locator("bdi", has_text="shared.mp4"))
    expect(film.row("shared.mp4")).to_have_count(2)
    row.get_by_role("button", name="Remove shared.mp4").click()
    expect(page.get_by_role("dialog")).not_to_contain_text("the upload")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(row).to_have_count(0)
    assert media.rsplit("/", 1)[1] in [file["id"] for file in server.get("/v1/files")["results"]], "the upload is gone"
    server.delete(f"/v1/predictions/{other}")
    page.locator(".ready").get_by_role("button", name="Remove shared.mp4").click()
    expect(film.row("shared.mp4")).to_have_count(0)


def errors(look, files, server):
    """Sentences where they belong."""
    film, page = Film(look), look.page
    look.go()
    expect(page.locator(".add")).to_be_visible()
    look.drop(("page.mp4", b"<html></html>\n\n\n"))
    refusal = page.locator(".setup .problem:visible").first
    expect(refusal).to_be_visible(timeout=60_000)
    if not refusal.inner_text().startswith("page.mp4"):
        look.faults.append(f"this names no film that a person knows: {refusal.inner_text()}")
    look.state("not-a-film")
    look.go()
    page.get_by_role("button", name="Remove page.mp4").click()
    expect(film.row("page.mp4")).to_have_count(0)
    film.set_up(files["one"])
    page.get_by_label("Other size").fill("wide")
    expect(page.locator(".start .problem")).to_contain_text("wide", timeout=60_000)
    expect(film.button("Start")).to_be_disabled()
    look.state("wrong-size")
    page.get_by_label("Other size").fill("512x288")
    film.planned()
    expect(film.button("Start")).to_be_enabled()
    page.get_by_text("More settings").click()
    page.get_by_label("From", exact=True).fill("9:00:00")
    expect(page.locator(".start .problem")).to_be_visible(timeout=60_000)
    look.go("film?id=nothing")
    expect(page.get_by_role("heading", name="This film is not here")).to_be_visible()
    look.go("folder?path=/etc")
    expect(page.locator(".folder .problem")).to_be_visible()
    # A name that begins as an allowed folder does is not below it.
    look.go(f"folder?path={files['clip'].parent}/films2/x")
    expect(page.locator(".folder .problem")).to_be_visible()
    expect(page.locator(".folder p a")).to_have_text(["Folders"])
    look.go()
    page.get_by_role("button", name="Remove one.mp4").first.click()


def elsewhere(look, files, server):
    """Films that are not on the server, and addresses that are none."""
    film, page = Film(look), look.page
    plans = []
    page.on("request", lambda request: plans.append(request.url) if "/v1/plans" in request.url else None)
    for media in ("https://films.example/a%2520film.mkv", "http://["):
        look.go(f"new?media={media}")
        expect(page.locator(".setup .stage.empty")).to_contain_text("fetched when it starts")
        expect(film.button("Start")).to_be_enabled()
        expect(page.locator(".setup .cost")).to_be_hidden()
    page.wait_for_timeout(600)
    assert not plans, "a film that is not here was planned"
    look.state("elsewhere")
    film.button("Start").click()
    expect(page.locator(".start .problem")).to_be_visible()
    expect(film.button("Start")).to_be_enabled()
    assert page.evaluate("() => import('/assets/api.js').then((api) => api.local('//[/a.mkv'))") == "//[/a.mkv"


def starts(look, files, server):
    """What can happen between the settings and a place in the queue."""
    film, page = Film(look), look.page
    look.go()
    expect(page.locator(".add")).to_be_visible()
    look.drop(*[(name, Path(files["one"]).read_bytes()) for name in ("first.mp4", "second.mp4")])
    expect(page.locator(".ready li")).to_have_count(2, timeout=60_000)
    page.locator(".ready a").first.click()
    film.planned()
    # A plan that failed says nothing of the film.
    slow = {"status": 422, "kind": "too-slow", "detail": "this took too long and was stopped; try again"}
    page.route("**/v1/plans", lambda route: route.fulfill(status=422, json=slow))
    film.button("2×").click()
    expect(page.locator(".start .problem")).to_contain_text("too long")
    expect(film.button("Start")).to_be_enabled()
    page.unroute("**/v1/plans")
    film.button("4×").click()
    film.planned()
    # Without an answer nobody knows whether the film was started.
    keys = []
    meet(page, "**/v1/predictions", lambda route: (keys.append(route.request.headers["idempotency-key"]), route.abort()))
    for press in range(3):
        if press == 2:
            film.button("2×").click()
            film.planned()
        film.button("Start").click()
        expect(page.locator(".start .problem")).to_contain_text("does not answer")
        expect(film.button("Start")).to_be_enabled()
    page.unroute("**/v1/predictions")
    assert keys[0] == keys[1] != keys[2], f"keys of one setting, the same, and another: {keys}"
    start_all(look, film)


def start_all(look, film):
    """Stopped half-way, it goes on with the film that failed."""
    page, asked = look.page, []

    def once(route):
        asked.append(route.request.post_data_json["input"]["media"])
        full = {"status": 503, "kind": "queue-full", "detail": "the queue is full"}
        route.fulfill(status=503, json=full) if len(asked) == 2 else route.continue_()

    meet(page, "**/v1/predictions", once)
    page.get_by_role("button", name="Start all 2 uploaded films with these settings").click()
    expect(page.locator(".start .problem")).to_have_text("first.mp4: the queue is full")
    look.state("start-all-stopped")
    page.get_by_role("button", name="Start the uploaded film that is left").click()
    expect(page.locator(".add")).to_be_visible()
    page.unroute("**/v1/predictions")
    assert asked[0] != asked[1] == asked[2], f"films that were started: {asked}"
    for name in ("first.mp4", "second.mp4"):
        film.done(name)


def again(look, files, server):
    """A job of a program is restored again, and its original is gone."""
    film, page = Film(look), look.page
    look.go()
    expect(page.locator(".add")).to_be_visible()
    look.drop(("program.mp4", Path(files["one"]).read_bytes()))
    expect(page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
    film.planned()
    page.evaluate(MAKE, {"resolution": "1x", "output_quality": 70, "audio": "none"})
    film.done("program.mp4")
    row = film.row("program.mp4")
    row.locator("a").click()
    expect(page.locator(".result .after img")).to_be_visible(timeout=60_000)
    page.get_by_role("link", name="Restore again…").click()
    expect(page.get_by_text("Also as before: quality 70, sound none.")).to_be_visible()
    with page.expect_request("**/v1/plans") as plan:
        page.reload()
    assert str(plan.value.post_data_json["input"]["output_quality"]) == "70", plan.value.post_data
    look.state("restore-again")
    with page.expect_request("**/v1/plans") as plan:
        film.button("Leave out").click()
    assert "output_quality" not in plan.value.post_data_json["input"], plan.value.post_data
    gone = {"status": 404, "kind": "not-found", "detail": "there is no such file"}
    page.route("**/frames/*?side=before", lambda route: route.fulfill(status=404, json=gone))
    row.locator("a").click()
    expect(page.get_by_text("The original is no longer there.")).to_be_visible(timeout=60_000)
    expect(page.locator(".result .after img")).to_be_visible()
    expect(page.locator(".result .before")).to_be_hidden()
    look.state("without-original")
    page.unroute("**/frames/*?side=before")


# The film of the settings, as a program would start it.
MAKE = """(input) => fetch("/v1/predictions", {
  method: "POST",
  headers: { "X-Remaster": "1", "Content-Type": "application/json" },
  body: JSON.stringify({ version: "identity", input: { media: new URLSearchParams(location.hash.slice(5)).get("media"), ...input } }),
})"""


def hostile_name(look, files, server):
    """A name that would like to be a program."""
    film, page = Film(look), look.page
    look.go()
    expect(page.locator(".add")).to_be_visible()
    look.drop((HOSTILE, Path(files["one"]).read_bytes()))
    expect(page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
    film.button("2×").click()
    film.planned()
    film.button("Start").click()
    row = page.locator("#films li", has_text="onerror")
    expect(row.locator(".state")).to_have_text("Done", timeout=PATIENCE)
    expect(page.locator(".result .after img")).to_be_visible(timeout=60_000)
    look.state("hostile-name")
    assert page.evaluate("() => window.owned") is None, "the name was run"
    assert page.locator("img[src=x]").count() == 0, "the name became an element"
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download").click()
    assert "/" not in waiting.value.suggested_filename


def still(look, files, server):
    """A picture is a film of one frame, without a time."""
    film, page = Film(look), look.page
    film.set_up(files["cat"])
    expect(page.locator(".timeline")).to_be_hidden()
    film.button("Same").click()
    film.planned()
    film.button("Start").click()
    film.done("cat.png")
    expect(page.locator(".result .after img")).to_be_visible(timeout=60_000)
    expect(film.button("Play")).to_be_hidden()
    look.state("picture")


def folders(look, files, server):
    """A film that is on the server's disk already."""
    film, page = Film(look), look.page
    look.go()
    page.get_by_role("link", name="Choose from the server’s folders…").click()
    page.get_by_role("link", name="films", exact=False).first.click()
    expect(page.get_by_role("link", name="sub/")).to_be_visible()
    look.state("folder")
    page.get_by_role("link", name="sub/").click()
    page.get_by_role("link", name="there.mp4").click()
    film.planned()
    expect(page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
    look.state("set-up-from-folder")
    film.button("2×").click()
    film.planned()
    film.button("Start").click()
    film.done("there.mp4")


def reload(look, files, server):
    """Closed and opened in the middle of things."""
    film, page = Film(look), look.page
    film.set_up(files["clip"])
    film.button("2×").click()
    film.planned()
    page.reload()
    expect(page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
    expect(film.button("2×")).to_have_attribute("aria-pressed", "true")
    film.planned()
    film.button("Start").click()
    expect(page.locator(".newest img")).to_be_visible(timeout=PATIENCE)
    page.reload()
    expect(page.locator(".film progress")).to_be_visible()
    expect(film.fact("Work")).to_contain_text("of")
    other = look.open()
    expect(other.locator("#films .queue bdi")).to_have_text(["clip.mp4"])
    other.close()
    page.locator("main").get_by_role("button", name="Cancel clip.mp4").click()
    expect(page.locator("main .state").first).to_have_text("Canceled")
    upload(look, film, files)


def upload(look, film, files):
    """Slow enough to see, by the browser's brake: 250 KB a second."""
    page = look.page
    look.go()
    brake = look.context.new_cdp_session(page)
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 250_000}
    brake.send("Network.emulateNetworkConditions", limits)
    look.drop(files["large"], files["one"])
    row = film.row("large.bin")
    expect(row).to_contain_text("keep this page open")
    expect(row).to_contain_text("left")
    expect(film.row("one.mp4").first).to_contain_text("waits")
    look.state("uploading")
    asked = []
    page.once("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.evaluate("() => { location.reload(); }")
    page.wait_for_timeout(1000)
    assert asked == ["beforeunload"], f"leaving during an upload: {asked}"
    page.get_by_role("button", name="Cancel the upload of large.bin").click()
    expect(film.row("large.bin")).to_have_count(0)
    brake.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": -1})
    brake.detach()
    expect(film.row("one.mp4").first.get_by_role("button", name="Remove one.mp4")).to_be_visible(timeout=60_000)
    # Larger than what frameworks allow by themselves.
    look.drop(files["large"], files["two"])
    page.locator(".ready").get_by_role("button", name="Remove large.bin").click()
    expect(film.row("large.bin")).to_have_count(0)
    failed_upload(look, film, files)


def failed_upload(look, film, files):
    """Refused, stalled and lost."""
    page, row = look.page, film.row("large.bin")
    look.drop(("list.m3u8", b"#EXTM3U"))
    expect(film.row("list.m3u8")).to_contain_text("no film")
    page.get_by_role("button", name="Dismiss the upload of list.m3u8").click()
    meet(page, "**/v1/files", lambda route: route.abort())
    look.drop(files["large"])
    expect(row).to_contain_text("The connection was lost during the upload.")
    look.state("upload-lost")
    # The disk is full by now, which is why the server ended the upload.
    session = page.evaluate("() => fetch('/v1/session').then((answer) => answer.json())")
    page.route("**/v1/session", lambda route: route.fulfill(json={**session, "free_disk": 1_074_000_000}))
    page.get_by_role("button", name="Try again to upload large.bin").click()
    expect(row).to_contain_text("Make room")
    page.unroute("**/v1/session")
    page.unroute("**/v1/files")
    meet(page, "**/v1/files", lambda _: None)
    page.get_by_role("button", name="Try again to upload large.bin").click()
    expect(row).to_contain_text("nothing was sent for 1")
    page.get_by_role("button", name="Cancel the upload of large.bin").click()
    page.unroute("**/v1/files")
    expect(row).to_have_count(0)


def lost_connection(look, files, server):
    """The server is killed while a film runs, and comes back."""
    film, page = Film(look), look.page
    film.start(files["clip"])
    expect(page.locator(".newest img")).to_be_visible(timeout=PATIENCE)
    at = page.url.split("#")[1]
    server.kill()
    line = page.locator("#connection")
    expect(line).to_contain_text("Trying again")
    # What changes every second is not read aloud.
    expect(line.get_by_role("alert")).to_have_text("Not connected to the server. Films go on without this page.")
    look.state("not-connected")
    look.go("folder")
    expect(page.locator(".folder .problem")).to_contain_text("does not answer")
    server.start()
    expect(line).to_be_hidden(timeout=60_000)
    expect(page.locator(".folder .entries a")).to_have_count(1)
    expect(page.locator(".folder .problem")).to_be_hidden()
    look.go(at)
    expect(page.locator(".result .after img")).to_be_visible(timeout=PATIENCE)


def quiet_tab(look, files, server):
    """A tab that nobody sees gives its connection up, and one that hears nothing asks for another."""
    page = look.context.new_page()
    page.add_init_script(STREAMS)
    page.clock.install()
    page.goto(look.address)

    def wait_for(number):
        page.wait_for_function(f"() => streams.filter((each) => each.readyState === 1).length === {number}", timeout=30_000)

    wait_for(1)
    expect(page.locator(".add")).to_be_visible()
    # The server says every 15 seconds that it is alive. An event without data would not reach the page.
    page.wait_for_function("() => streams[0].alive", timeout=20_000)
    page.evaluate(SEEN, False)
    page.clock.fast_forward(40_000)
    wait_for(1)
    with page.expect_response("**/v1/predictions"):
        page.clock.fast_forward(60_000)
    wait_for(0)
    with page.expect_response("**/v1/predictions"):
        page.clock.fast_forward(30_000)
    page.evaluate(SEEN, True)
    wait_for(1)
    made = page.evaluate("() => streams.length")
    page.clock.fast_forward(60_000)
    expect(page.locator("#connection")).to_be_visible()
    page.clock.fast_forward(2_000)
    expect(page.locator("#connection")).to_be_hidden()
    wait_for(1)
    assert page.evaluate("() => streams.length") == made + 1, "the silent stream was kept"
    page.close()


STREAMS = """window.streams = [];
window.EventSource = class extends EventSource {
  constructor(address) {
    super(address);
    streams.push(this);
    this.addEventListener("alive", () => {
      this.alive = true;
    });
  }
};"""

SEEN = """(seen) => {
  Object.defineProperty(document, "hidden", { value: !seen, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def keyboard(look, files, server):
    """Without a mouse, from the file to its frames."""
    film, page = Film(look), look.page
    look.go()
    page.reload()
    expect(page.locator(".add")).to_be_visible()
    look.tab_to(film.button("Choose a file…"))
    with page.expect_file_chooser() as waiting:
        page.keyboard.press("Enter")
    waiting.value.set_files(files["two"])
    expect(page.locator(".setup .layer.before img")).to_be_visible(timeout=60_000)
    expect(page.locator("main h2")).to_be_focused()
    look.tab_to(film.button("2×"))
    page.keyboard.press("Space")
    film.planned()
    look.tab_to(film.button("Start"))
    page.keyboard.press("Enter")
    said = page.evaluate_handle(LISTEN)
    expect(page.locator(".result .after img")).to_be_visible(timeout=PATIENCE)
    assert page.evaluate("(list) => list.length", said) <= 8, "too much is read aloud"
    # Two at once, and the same again.
    page.wait_for_timeout(2_000)
    page.evaluate("(list) => { list.length = 0; }", said)
    page.evaluate("() => import('/assets/dom.js').then(({ announce }) => ['one', 'two', 'two'].forEach(announce))")
    page.wait_for_timeout(4_000)
    assert page.evaluate("(list) => list", said) == ["one", "two", "two"], page.evaluate("(list) => list", said)
    look.tab_to(page.locator(".result .stage"))
    at = page.locator(".timeline .reading").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".timeline .reading")).not_to_have_text(at)
    look.tab_to(page.get_by_role("slider", name="Divider between before and after"))
    page.keyboard.press("Home")
    expect(page.get_by_role("slider", name="Divider between before and after")).to_have_attribute("aria-valuenow", "0")


LISTEN = """() => {
  const said = [];
  const place = document.getElementById("announcer");
  new MutationObserver(() => place.textContent && said.push(place.textContent))
    .observe(place, { childList: true, characterData: true, subtree: true });
  return said;
}"""


def token(look, files, server):
    """A server that wants a token."""
    film, page = Film(look), look.page
    expect(page.get_by_role("heading", name="This server needs a token")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    look.state("token")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-problem")).to_be_visible()
    look.state("token-wrong")
    page.get_by_label("Token").fill("a-secret-of-forty-letters-more-or-less")
    page.keyboard.press("Enter")
    expect(page.locator(".add")).to_be_visible()
    page.reload()
    expect(page.locator(".add")).to_be_visible()
    assert "forty" not in page.evaluate("() => document.cookie + JSON.stringify({ ...localStorage })"), "scripts can read the token"
    # This server takes uploads of 100 KiB at most.
    look.drop(("large.mp4", bytes(200_000)))
    expect(film.row("large.mp4")).to_contain_text("--upload-limit")
    look.state("upload-too-large")


def make_files(folder, media, front):
    """Clips for all of them, from those of the repository."""
    folder = Path(folder)
    (folder / "films" / "sub").mkdir(parents=True)

    def cut(name, source, *options):
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *options, "-i", str(source), "-c:v", "libx264", "-preset", "ultrafast",
                        "-crf", "32", "-pix_fmt", "yuv420p", "-an", str(folder / name)], check=True)
        return folder / name

    files = {name: cut(f"{name}.mp4", media / "launch.mp4", "-t", "0.3") for name in ("one", "two", "three")}
    files["clip"] = cut("clip.mp4", front / "bunny.mp4")
    files["long"] = cut("long.mp4", front / "bunny.mp4", "-stream_loop", "9")
    files["cat"] = media / "cat.png"
    files["large"] = folder / "large.bin"
    files["large"].write_bytes(bytes(8_000_000))
    cut("films/sub/there.mp4", media / "launch.mp4", "-t", "0.3")
    return files


VISITS = [first_film, queue, shared, errors, elsewhere, starts, hostile_name, still, again, folders, reload, lost_connection, quiet_tab, keyboard]
