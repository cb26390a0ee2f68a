"""Pictures of a recorded flight, without a screen: the session is replayed, and the twin drawn at some of its moments.

    python tools/render_mission.py SESSION.mcap --at 8,20.5,32 --out docs/images/NAME

MuJoCo draws with EGL, which needs no display: Debian's packages libegl1 and libgl1-mesa-dri bring it. Needs Pillow.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
import numpy.typing as npt
from PIL import Image

from lav2_hil.session.check import check_session
from lav2_hil.session.reader import read_session
from lav2_hil.session.replay import ReplayLoop
from twin.manipulator import TIP
from twin.twin import Twin
from twin.vehicle_model import build_model

WIDTH, HEIGHT = 800, 500
QUALITY = 85
_COLOURS = {
    "ground": (0.55, 0.58, 0.55, 1.0),
    "wall": (0.78, 0.72, 0.62, 1.0),
    "hull": (0.20, 0.26, 0.34, 1.0),
    "arm": (0.85, 0.45, 0.10, 1.0),
    TIP: (0.10, 0.10, 0.10, 1.0),
}
_ROTOR_COLOUR = np.array((0.2, 0.2, 0.2, 0.35), dtype=np.float32)
_OTHER = (0.12, 0.12, 0.12, 1.0)
_FORCE_COLOUR = (0.85, 0.1, 0.1, 1.0)
_SKY = (214, 224, 234)


class Painter:
    """Draws a twin's state.

    Args:
        twin: whose world 0 is drawn; of the model's vehicle.
        model: of its vehicle.
        blade_radius_m: of the rotors.
        look: azimuth, elevation [degrees] and distance [m] of the camera, which looks at the vehicle.
    """

    def __init__(
        self, twin: Twin, model: mujoco.MjModel, blade_radius_m: float, look: tuple[float, float, float]
    ) -> None:
        self._twin, self._model, self._data = twin, model, mujoco.MjData(model)
        self._blade_radius_m = blade_radius_m
        for geom in range(model.ngeom):
            name = model.geom(geom).name
            model.geom_rgba[geom] = _COLOURS.get(name, _COLOURS.get(name.rstrip("0123456789"), _OTHER))
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.45, 0.5
        model.vis.scale.forcewidth, model.vis.map.force = 0.015, 0.1
        model.vis.rgba.contactforce[:] = _FORCE_COLOUR
        model.stat.meansize = 0.3  # the size of what is drawn beside the bodies, such as forces
        model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
        self._renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
        self._camera = mujoco.MjvCamera()
        self._camera.azimuth, self._camera.elevation, self._camera.distance = look
        self._option = mujoco.MjvOption()
        self._option.flags[mujoco.mjtVisFlag.mjVIS_CONTACTFORCE] = True

    def draw(self) -> npt.NDArray[np.uint8]:
        """(HEIGHT, WIDTH, 3) the state now."""
        state = np.empty(self._twin.checkpoint_size)
        self._twin.save(state)
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        mujoco.mj_setState(self._model, self._data, state[: mujoco.mj_stateSize(self._model, kind)], kind)
        mujoco.mj_forward(self._model, self._data)
        self._camera.lookat[:] = self._data.body("base").xpos + np.array((0.0, 0.2, 0.0))
        self._renderer.update_scene(self._data, self._camera, self._option)
        for site in range(self._model.nsite):
            if self._model.site(site).name.startswith("rotor"):
                self._add_disc(self._data.site_xpos[site], self._data.site_xmat[site])
        picture = np.array(self._renderer.render())
        self._renderer.enable_segmentation_rendering()
        picture[self._renderer.render()[..., 0] < 0] = _SKY  # where nothing is, MuJoCo leaves it black
        self._renderer.disable_segmentation_rendering()
        return picture

    def _add_disc(self, place: npt.NDArray[np.float64], rotation: npt.NDArray[np.float64]) -> None:
        scene = self._renderer.scene
        size, cylinder = np.array((self._blade_radius_m, 0.003, 0.0)), mujoco.mjtGeom.mjGEOM_CYLINDER
        disc = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(disc, cylinder, size, place, rotation, _ROTOR_COLOUR)
        disc.segid, disc.objid = scene.ngeom, 0  # left as they are, it would be no object of the segmented picture
        scene.ngeom += 1


def main() -> None:
    """Replay, and write a picture for each of the moments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", type=Path)
    parser.add_argument("--at", required=True, help="simulated seconds, with commas between them")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--look", default="15,-12,1.7", help="azimuth, elevation, distance of the camera")
    options = parser.parse_args()
    moments = [float(part) for part in options.at.split(",")]
    azimuth, elevation, distance = map(float, options.look.split(","))
    replayed = check_session(options.session)
    if replayed.spoilt is not None or not replayed.comparison.equal:
        parser.error(f"{options.session} is not what flies today; lav2-hil replay says where it differs")
    options.out.mkdir(parents=True, exist_ok=True)

    session = read_session(options.session)
    loop = ReplayLoop(session, session.records, None)
    vehicle = session.header.profile.vehicle
    radius = 0.0 if vehicle.propeller is None else vehicle.propeller.blade_radius_m
    painter = Painter(loop.twin, build_model(vehicle), radius, (azimuth, elevation, distance))
    while moments and loop.next_us is not None:
        loop.take()
        if loop.session.time_us >= 1e6 * moments[0]:
            path = options.out / f"{moments.pop(0):05.1f}s.jpg"
            Image.fromarray(painter.draw()).save(path, quality=QUALITY)
            print(path, path.stat().st_size)
    if moments:
        parser.error(f"the session ends at {1e-6 * loop.session.time_us:.1f} s")


if __name__ == "__main__":
    main()
