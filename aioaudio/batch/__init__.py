"""Many clips: in order or as they complete, alone or in batches, in bounded memory.

    order, grouping, crop, manifest, options, failures, room    pure planning
    feed, segment, flow, stages, pipeline                       the flow, on the I/O thread
    agree                                                       ranks that go through their epochs in step
    collate                                                     the memory of a batch, in a read worker
    cargo, single                                               the same for a device: what crosses, and becomes of it
    statistics, trace, reporter                                 what there is to see of it
    setup                                                       from options to a run
    handover, run, results                                      what the consumer holds

The flow is handed the workers and a way to load; it knows nothing of sessions.
"""

from aioaudio.batch.collate import Collate, Layout
from aioaudio.batch.crop import Short
from aioaudio.batch.failures import OnError
from aioaudio.batch.grouping import Sizes
from aioaudio.batch.options import BatchOptions, FlowOptions, OrderOptions, ResultOrder, Uneven, checked_clips
from aioaudio.batch.results import BlockingResults, Results
from aioaudio.batch.setup import RunPlan
from aioaudio.batch.single import load_onto
from aioaudio.batch.stages import BatchStages, LoadStages
from aioaudio.batch.statistics import StageStatistics

__all__ = [
    "BatchOptions",
    "BatchStages",
    "BlockingResults",
    "Collate",
    "FlowOptions",
    "Layout",
    "LoadStages",
    "OnError",
    "OrderOptions",
    "ResultOrder",
    "Results",
    "RunPlan",
    "Short",
    "Sizes",
    "StageStatistics",
    "Uneven",
    "checked_clips",
    "load_onto",
]
