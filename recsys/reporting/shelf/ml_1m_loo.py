from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.settings import baseline_rows
from recsys.reporting.shelf.settings import default_tower_rows
from recsys.reporting.shelf.settings import tower

_PETROV = "Petrov and Macdonald, gSASRec, RecSys 2023"

ML_1M_LOO = Benchmark(
    title="MovieLens-1M, the next film",
    protocol="The ratings of 6,040 users for 3,416 films with at least five, "
    "in the order of time. The last film of each user is the test, the one "
    "before it the validation; all films are ranked but for those that the "
    "user has rated.",
    about="SASRec with the full softmax and HSTU were published on the same "
    "ratings with ties of time in another order: their targets are not all "
    "the same.",
    data_set="sequences",
    files={
        "file": ShelfFile(
            ("sequences.txt",),
            "1c0d25c60172984c1d8f3857a0ed12c24a63c674da021cde2c62816193ac8e10",
        ),
    },
    options={"length": 200, "train_length": 0},
    settings=(
        *baseline_rows("popular", "ease", "spectral"),
        *default_tower_rows(),
        *(
            Setting(
                f"transformer{refit}",
                "train",
                tower(tower_epochs=6, refit=bool(refit)),
                seeds=3,
            )
            for refit in ("", ", refit")
        ),
        Setting(
            "HSTU, six epochs in bfloat16",
            "train",
            tower(
                tower="hstu",
                tower_epochs=6,
                tower_precision="bfloat16",
                refit=False,
            ),
            seeds=3,
        ),
    ),
    published=(
        Published("SASRec, one negative", (0.2392, 0.1259), _PETROV),
        Published("gSASRec", (0.3003, 0.1726), _PETROV),
        Published("BERT4Rec", (0.2821, 0.1516), "Petrov and Macdonald"),
        Published(
            "SASRec, full softmax", (0.3058, 0.1779), "RecTools's benchmark"
        ),
        Published("HSTU", (0.3097, 0.1720), "Zhai et al., ICML 2024"),
        Published("HSTU-large", (0.3294, 0.1893), "Zhai et al., ICML 2024"),
    ),
)
